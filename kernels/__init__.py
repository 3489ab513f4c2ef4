"""Kernels: the code that Numba compiles, and nothing else.

The folder `kernels/` at the top of the repository is imported as `nbdlpack.kernels`.  Its modules are flat, one family
of kernels a file: plain scalar functions (one for each ufunc), and what lifts such a function over an array: strided
map and zip, copy and cast, fill, reduction, scan, sort, search, gather and scatter, matrix product, random numbers.

What holds for every module here:

* A kernel sees addresses, shapes and strides, never an ndarray, and imports nothing of the layers above.
* Importing a module compiles nothing and calls no driver.  Devices import it, the first time they launch from it.
* Any grid and block size gives the right result, and the same bits in every run.

There are none yet: the cpu device computes with NumPy on zero-copy views of its memory.
"""

from __future__ import annotations
