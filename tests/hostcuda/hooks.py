"""What is changed in numba-cuda and cuda-bindings, when they are imported."""

from __future__ import annotations

import os
import sys

import tests.hostcuda as hostcuda
from tests.hostcuda.building import loaded

WITH_NVVM = os.environ.get("HOSTCUDA_PTX", "0") != "0"
"""Whether numba-cuda also compiles each kernel as it does for a GPU, which takes the NVIDIA wheels, and time."""


def _hook_codegen(codegen) -> None:
    """Let what numba-cuda takes for a cubin be an object file for this machine."""
    from cuda.core import ObjectCode
    from numba.cuda.cudadrv import nvvm

    library = codegen.CUDACodeLibrary
    real_cubin = library.get_cubin

    def get_cubin(self, cc=None):
        cc = self._ensure_cc(cc)
        if cc not in self._cubin_cache:
            from tests.hostcuda.compiling import compile_kernel

            if WITH_NVVM:
                real_cubin(self, cc)
            texts = [nvvm.llvm_replace(text) if "___numba_atomic" in text else text for text in self.llvm_strs]
            hostcuda.note_compiled(texts)
            self._cubin_cache[cc] = ObjectCode.from_cubin(compile_kernel(texts, self._entry_name))
            self._linkerinfo_cache.setdefault(cc, "")
        return self._cubin_cache[cc]

    library.get_cubin = get_cubin
    if not WITH_NVVM:
        library.get_asm_strs = lambda self, cc=None: ["// no PTX: see tests/hostcuda"]
        nvvm.NVVM.__new__ = staticmethod(object.__new__)
        nvvm.NVVM.__init__ = lambda self: None
        nvvm.NVVM.get_ir_version = lambda self: (2, 0, 3, 2)
        codegen.runtime.runtime.get_version = lambda: (13, 0)


def _hook_runtime(runtime) -> None:
    """libcudart does not start on this driver: cuda.core's Device.sync() calls it, and numba-cuda asks its version."""
    from cuda.bindings import driver

    runtime.cudaDeviceSynchronize = lambda: (runtime.cudaError_t(int(driver.cuCtxSynchronize()[0])),)
    runtime.getLocalRuntimeVersion = lambda: (runtime.cudaError_t(0), 13000)


HOOKS = {
    "numba.cuda.codegen": _hook_codegen,
    "numba_cuda.numba.cuda.codegen": _hook_codegen,
    "cuda.bindings.runtime": _hook_runtime,
}


class _Finder:
    """Calls the hooks when their modules have been imported."""

    def find_spec(self, name, path=None, target=None):
        if name not in HOOKS:
            return None
        for finder in sys.meta_path:
            if finder is not self and (spec := finder.find_spec(name, path, target)):
                load = spec.loader.exec_module
                spec.loader.exec_module = lambda module: (load(module), HOOKS[name](module))
                return spec
        return None


def hook_imports() -> None:
    """Change the modules that are imported already, and those that will be."""
    from tests.hostcuda.compiling import libdevice_object

    if path := libdevice_object():
        loaded().hostcuda_libdevice(str(path).encode())
    for name in HOOKS.keys() & sys.modules.keys():
        HOOKS[name](sys.modules[name])
    sys.meta_path.insert(0, _Finder())
