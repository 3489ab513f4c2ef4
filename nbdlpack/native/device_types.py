"""DLPack's numbers of the kinds of memory and of streams."""

from __future__ import annotations

from enum import IntEnum
from typing import Final

LEGACY_STREAM: Final = 1
"""The default stream of a CUDA context, with which all blocking streams are ordered."""


class DLDeviceType(IntEnum):
    """Where the memory of a tensor is, by the names and numbers of DLPack 1.3.

    Members are integers, so that ``x.__dlpack_device__()`` compares with the plain pairs that other libraries give.

    Examples
    --------
    >>> import nbdlpack as nd
    >>> nd.zeros(3).__dlpack_device__()
    (<DLDeviceType.kDLCPU: 1>, 0)
    >>> nd.dlpack.DLDeviceType.kDLCUDA == 2
    True

    References
    ----------
    .. [1] DLPack, ``DLDeviceType``, https://dmlc.github.io/dlpack/latest/c_api.html
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17
    kDLTrn = 18
