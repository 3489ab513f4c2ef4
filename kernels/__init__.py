"""Kernels: the code that Numba compiles, and nothing else.

The folder `kernels/` at the top of the repository is imported as `nbdlpack.kernels`.  Its modules are flat:

    numba_cuda      the one module that imports numba-cuda; what a kernel is, and how it is compiled
    access          loads and stores by address, and the dtypes with kernels
    libm            the functions of C's math library
    scalars         what elementwise functions compute of one element, plain Python
    elementwise     kernels that apply those to each element
    copies          copies, casts and fills
    reductions      reductions
    selection       index arrays and masks

What holds for every module here:

* A kernel sees addresses, shapes and strides, never an ndarray, and imports nothing of the layers above.
* Importing a module compiles nothing and calls no driver.  Devices import it, the first time they launch from it.
* Any grid and block size gives the right result, and the same bits in every run.
* It runs in Numba's simulator as well, as Python.
"""

from __future__ import annotations
