"""What DLPack's header numbers, flags and dtype codes besides the device types, and how they are said in words."""

from __future__ import annotations

from typing import Final

from nbdlpack.native import abi
from nbdlpack.native.device_types import DLDeviceType

VERSION: Final = (abi.MAJOR, abi.MINOR)
"""The version of DLPack that is spoken here, and asked of producers."""

READ_ONLY: Final = abi.READ_ONLY
IS_COPIED: Final = abi.IS_COPIED
IS_SUBBYTE_TYPE_PADDED: Final = 1 << 2

FLAGS: Final = {
    READ_ONLY: "READ_ONLY",
    IS_COPIED: "IS_COPIED",
    IS_SUBBYTE_TYPE_PADDED: "IS_SUBBYTE_TYPE_PADDED",
}

# By code: the name, and whether the number of bits is part of it.
CODES: Final = {
    0: ("int", True),
    1: ("uint", True),
    2: ("float", True),
    3: ("opaque handle", False),
    4: ("bfloat", True),
    5: ("complex", True),
    6: ("bool", False),
    7: ("float8_e3m4", False),
    8: ("float8_e4m3", False),
    9: ("float8_e4m3b11fnuz", False),
    10: ("float8_e4m3fn", False),
    11: ("float8_e4m3fnuz", False),
    12: ("float8_e5m2", False),
    13: ("float8_e5m2fnuz", False),
    14: ("float8_e8m0fnu", False),
    15: ("float6_e2m3fn", False),
    16: ("float6_e3m2fn", False),
    17: ("float4_e2m1fn", False),
}


def flag_words(flags: int) -> str:
    """Return the flags of a versioned tensor in words: ``"READ_ONLY | IS_COPIED"``, or ``"none"``."""
    words = [name for bit, name in FLAGS.items() if flags & bit]
    unknown = flags & ~sum(FLAGS)
    if unknown:
        words.append(f"unknown {unknown:#x}")
    return " | ".join(words) or "none"


def device_words(kind: int, number: int) -> str:
    """Return a DLPack device in words: ``"kDLCPU, 0"``, or its number where the type has no name."""
    try:
        return f"{DLDeviceType(kind).name}, {number}"
    except ValueError:
        return f"unknown device type {kind}, {number}"


def dtype_words(code: int, bits: int, lanes: int) -> str:
    """Return a DLPack dtype in words: ``"float32"``, ``"int8 in vectors of 4"``, ``"unknown code 99 of 8 bits"``."""
    if code in CODES:
        name, sized = CODES[code]
        words = f"{name}{bits}" if sized else name if bits == 8 else f"{name} of {bits} bits"
    else:
        words = f"unknown code {code} of {bits} bits"
    return words if lanes == 1 else f"{words} in vectors of {lanes}"
