# ---
# jupyter:
#   jupytext:
#     formats: ipynb,py:percent
#   kernelspec:
#     display_name: Python 3
#     language: python
#     name: python3
# ---

# %% [markdown]
# # Copy or zero-copy?
#
# A program hands an array from one library to another, or keeps the state of an array before it changes it. How much
# does it save to do that without a copy? This notebook measures it on your machine, for arrays from 1 KiB to 64 MiB. It
# takes less than half a minute, and about 200 MiB of memory.

# %%
import timeit

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.ticker import EngFormatter

import nbdlpack as nd

SIZES = [2**exponent for exponent in range(10, 27, 2)]  # in bytes

# %% [markdown]
# ## Three ways
#
# `a` is a NumPy array, `x` one of nbdlpack.
#
# | | | |
# |---|---|---|
# | copy | `a.copy()` | all elements are written to new memory, as every library does it |
# | lazy copy | `x.copy()` | both arrays share the memory until one of them is written to |
# | exchange | `nd.from_dlpack(a)`, `np.from_dlpack(x)` | the other library gets the same memory, by DLPack |
#
# Before any clock is read, there is a way to be certain: the library keeps a log of the copies it makes. An array made by
# `nd.array(a)` is a copy, and is in it. A lazy copy and an exchange are not, since there is nothing to put down.

# %%
a = np.ones(1_000_000)
x = nd.ones(1_000_000)

with nd.copy_log() as log:
    nd.array(a)
print("nd.array(a):", [f"{copy.nbytes} bytes: {copy.cause}" for copy in log])

with nd.copy_log() as log:
    x.copy()
    nd.from_dlpack(a)
    np.from_dlpack(x)
print("the others:", log)
assert log == []

# %% [markdown]
# ## The time they take
#
# Whatever else the computer does can only make a run longer, so the shortest of some runs is the honest one.


# %%
def shortest(statement, setup="pass", **names):
    """Return the seconds that a statement takes."""
    timer = timeit.Timer(statement, setup, globals=names)
    number = max(1, round(0.001 / max(timer.timeit(1), 1e-7)))  # so often that the clock can tell
    return min(timer.repeat(15, number)) / number


def arrays(size):
    """Return arrays of so many bytes for the statements to use."""
    return {"nd": nd, "np": np, "a": np.ones(size // 8), "x": nd.ones(size // 8)}


WAYS = {
    "copy, a.copy()": "a.copy()",
    "lazy copy, x.copy()": "x.copy()",
    "exchange, nd.from_dlpack(a)": "nd.from_dlpack(a)",
    "exchange, np.from_dlpack(x)": "np.from_dlpack(x)",
}
times = {way: [shortest(statement, **arrays(size)) for size in SIZES] for way, statement in WAYS.items()}

# %% [markdown]
# Both axes are logarithmic: from one horizontal line to the next, it takes ten times as long.


# %%
def in_words(size):
    """Return a number of bytes as "4 MiB"."""
    return f"{size >> 20} MiB" if size >= 1 << 20 else f"{size >> 10} KiB"


def draw(curves, title):
    """Draw times over the size of the array."""
    _, axes = plt.subplots(figsize=(7, 4), layout="constrained")
    for (name, seconds), style, markersize in zip(curves.items(), ["o-", "s-", "D-", "^--"], [9, 8, 6, 5], strict=True):
        axes.loglog(SIZES, seconds, style, markersize=markersize, label=name)
    axes.set_xscale("log", base=2)
    axes.set_xticks(SIZES, map(in_words, SIZES))
    axes.yaxis.set_major_formatter(EngFormatter("s"))
    axes.set_ylim(bottom=min(map(min, curves.values())) / 3)
    axes.set(xlabel="size of the array", ylabel="time", title=title)
    axes.grid(alpha=0.3)
    axes.legend(loc="upper left")
    plt.show()


draw(times, "Copy, lazy copy and exchange")

# %% [markdown]
# Two things are to be seen, on any machine:
#
# * The time of a **copy** follows the size. It rises more steeply where the array no longer fits into the caches of the
#   processor, and where new memory has to be asked of the system.
# * **Exchange** and **lazy copy** are flat. They make a description of the memory, which is as short for a large array as
#   for a small one.
#
# So there are sizes at which it does not matter, and sizes at which nothing else does. Where is that, here?

# %%
copy, lazy, exchange, _ = times.values()
worth = [size for size, one, other in zip(SIZES, copy, exchange, strict=True) if other < one]
print(f"An exchange is faster than a copy from {in_words(worth[0])} on." if worth else "A copy was always faster.")
for size, one, other in zip(SIZES, copy, exchange, strict=True):
    print(f"{in_words(size):>7}: a copy takes {one / other:11,.1f} times as long")

# %% [markdown]
# ## The price of waiting
#
# A lazy copy does not do away with the work, it puts it off until somebody writes. So there are three cases: it is never
# written to, and the work is never done; or it is, and then the first write copies; or an ordinary copy was made at once.


# %%
WRITES = {
    "copy at once, then write an element": ("b = a.copy(); b[0] = 1", "pass"),
    "lazy copy, then write an element": ("y = x.copy(); y[0] = 1", "pass"),
    "lazy copy, then read an element": ("y = x.copy(); y[0]", "pass"),
    "write another element later": ("y[1] = 1", "y = x.copy(); y[0] = 1"),
}
after = {
    name: [shortest(statement, setup, **arrays(size)) for size in SIZES] for name, (statement, setup) in WRITES.items()
}
draw(after, "What the first write costs")

# %% [markdown]
# * Who **writes** pays for the copy in the end: for large arrays the first two curves run together. A lazy copy is not
#   slower than the copy it stands for, except for small arrays, where it is some calls instead of one.
# * Who only **reads** never pays.
# * It is paid **once**: later writes are as fast as if there had been no copy.
#
# Hence you can copy to be safe, before you hand an array to code that may or may not change it, and pay only if it does.
# The log says the same in bytes:

# %%
x = nd.ones(1_000_000)
with nd.copy_log() as log:
    kept = x.copy()
    total = x.sum() + kept.sum()  # read both: nothing is copied
    read = len(log)
    kept[0] = 5  # the first write
    kept[1] = 6
print(f"copies after reading: {read}; after writing twice: {len(log)}, of {sum(copy.nbytes for copy in log)} bytes")
assert (read, len(log)) == (0, 1)

# %% [markdown]
# ## In short
#
# | you want | use | it costs |
# |---|---|---|
# | another library to see the array, and both to edit it | `from_dlpack` | the same at any size |
# | the state of an array as it is now, perhaps for nothing | `x.copy()` | the same at any size, and a copy if one is written to |
# | memory of your own at a moment that you choose | `nd.materialize(x.copy())` | a copy |
# | to be certain that nothing is copied | `with nd.no_copies():` | nothing |
#
# Below some kilobytes all of this is as fast as calling a function, and you may copy as you like.
