"""Every check is right about a library that does everything right: the reference library passes all of them."""

from __future__ import annotations

import gc
import importlib
from typing import TYPE_CHECKING

import pytest

from nbdlpack.conformance import CHECKS
from nbdlpack.conformance.registry import NotApplicable, Refused
from nbdlpack.conformance.subject import Subject
from tests.conformance.broken import VARIANTS

if TYPE_CHECKING:
    from collections.abc import Iterator

ELSEWHERE = "P19 P33 P45 P46 P47 P48 C22 C57 C71 C73 C78 C82 C83 W13 W14 W23 W24 W28 W29 W30 W35"
SMALL = "P13 C08 C09"
EXCEPTIONS = {
    "cpu": {NotApplicable: "P50 W13 W14", Refused: f"{SMALL} C69"},
    "ext": {NotApplicable: ELSEWHERE, Refused: f"{SMALL} C69"},
    "wrapper": {NotApplicable: "W14 W34", Refused: ""},
    "values": {
        NotApplicable: "P04 P50 W13 W20 W21 W22 W23 W24 W25 W26 W27 W28 W29 W30 W31 W32 W33 W34 W35",
        Refused: f"{SMALL} P41 P61 X21",
    },
}
"""What is not to be checked with each variant, and what it declines, as any library may."""
CHECKED = {"cpu": ("",), "ext": ("P", "C", "X", "W"), "wrapper": ("W",), "values": ("P", "X", "L0", "W")}
"""How the ids begin of those checks for which a variant differs from the others."""


@pytest.fixture(scope="module")
def frozen() -> Iterator[None]:
    """Have the checks collect what they leave behind, and not look at all that was there before, each time."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.usefixtures("frozen")
@pytest.mark.parametrize(
    ("variant", "id"),
    [(variant, id) for variant, beginnings in CHECKED.items() for id in CHECKS if id.startswith(beginnings)],
    ids=str,
)
def test_the_reference_library_passes(variant, id):
    kind, device = VARIANTS[variant]
    adapter = getattr(importlib.import_module("tests.conformance.reference"), kind)(device)
    adapter.load()
    reasons = EXCEPTIONS[variant]
    due = {kind for kind, ids in reasons.items() if id in ids.split()}
    found = set()
    try:
        CHECKS[id].function(Subject(adapter))
    except tuple(reasons) as reason:
        found = {type(reason)}
    assert found == due
