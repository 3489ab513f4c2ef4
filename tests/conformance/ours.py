"""How the kit drives this library in its own tests: on each device, and through the wrapper for read-only exports."""

from __future__ import annotations

from nbdlpack.conformance.adapters import Nbdlpack
from tests import hostcuda


class OnHostCuda(Nbdlpack):
    """On a GPU whose driver runs on the CPU."""

    name = "nbdlpack on cuda"
    distribution = "nbdlpack"

    def load(self) -> None:
        hostcuda.install()
        super().load()


class Wrapped(Nbdlpack):
    """With `ReadOnlyTensorWrapper` in place of read-only arrays."""

    name = "nbdlpack's wrapper"
    distribution = "nbdlpack"

    def read_only(self, x):
        return self.xp.dlpack.ReadOnlyTensorWrapper(x)
