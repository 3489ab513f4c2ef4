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
# # First steps with nbdlpack
#
# nbdlpack is an array for Python whose memory other libraries use as their own. This notebook shows what that means, in
# ten minutes: an array, the same memory in NumPy and PyTorch, copies that cost nothing until they have to, arrays that
# must not be written to, and what to do when something is refused.
#
# It runs on any machine; no GPU is needed. PyTorch is used if it is there (`pip install torch`).

# %%
import numpy as np

import nbdlpack as nd

try:
    import torch
except ImportError:
    torch = None
    print("PyTorch is not installed: the two cells that need it will say so, and all others work.")

# %% [markdown]
# ## An array
#
# Arrays are made by functions that have NumPy's names. Without `device=`, they are on the default device.

# %%
x = nd.arange(12, dtype=nd.float32).reshape(3, 4)
x

# %%
x.shape, x.dtype, x.device, nd.get_default_device()

# %% [markdown]
# Slices are views, as in NumPy: they show the same memory, and a write to one is seen by all.

# %%
second_row = x[1]
second_row[0] = 100
x

# %%
assert nd.shares_memory(x, second_row)
x[:, ::2]

# %% [markdown]
# One thing differs: an element is an array as well, with no dimensions, and again a view. So it can be written to. For a
# number of Python, ask for one.

# %%
element = x[2, 3]
element[...] = -1
x[2, 3], float(element), x[0].tolist()

# %% [markdown]
# Operators and functions compute elementwise, with NumPy's rules for shapes and dtypes. NumPy's ufuncs and reductions
# work too, and give an array of ours.

# %%
y = (x - x.mean(axis=0)) * 2
y

# %%
np.maximum(y, 0), nd.sum(y > 0), y[y > 50]

# %% [markdown]
# ## The same memory in NumPy
#
# `np.from_dlpack` makes a NumPy array that *is* our array: nothing was copied. An edit on one side is seen on the other.

# %%
a = np.from_dlpack(x)
a[0] = 7
x[0, 1] = 8
print(x[0])
print(a[0])
assert x[0, 0] == 7
assert a[0, 1] == 8

# %% [markdown]
# It goes the other way as well, for every object that speaks DLPack. What comes back after a round trip is not merely
# equal: it is the memory that we began with.

# %%
back = nd.from_dlpack(a)
print("same memory:", nd.shares_memory(x, back))
print("same address:", nd.dlpack.inspect(x).address == a.ctypes.data == nd.dlpack.inspect(back).address)
assert nd.shares_memory(x, back)

# %% [markdown]
# ## To PyTorch and back

# %%
if torch is None:
    print("skipped: PyTorch is not installed")
else:
    t = torch.from_dlpack(x)
    t *= 10  # PyTorch computes in our memory
    back = nd.from_dlpack(t)
    print(x[0])
    print("same address:", nd.dlpack.inspect(x).address == t.data_ptr())
    assert nd.shares_memory(x, back)
    assert a[0, 0] == 70  # and NumPy, which has that memory too, sees what PyTorch did

# %% [markdown]
# Neural networks use number formats that NumPy does not have, such as `bfloat16`. They are dtypes like any other here,
# and are exchanged bit for bit.

# %%
b = nd.linspace(0, 1, 5).astype(nd.bfloat16)
b * 3

# %%
if torch is None:
    print("skipped: PyTorch is not installed")
else:
    t = torch.from_dlpack(b)
    t += 0.5
    print(t)
    print(b)
    assert t.dtype is torch.bfloat16
    assert b[0] == 0.5

# %% [markdown]
# ## Copies that wait
#
# `copy` takes the same time for a kilobyte and for a gigabyte, because nothing is copied yet: both arrays stay on one
# block of memory.

# %%
original = nd.zeros(1_000_000)
snapshot = original.copy()
nd.is_shared(original)

# %% [markdown]
# The first write to either of them ends that: the one that is written to gets memory of its own. You need not think of
# it; the other one never notices. If you want to know, `copy_log` lists what was copied, and why.

# %%
with nd.copy_log() as log:
    original[0] = 1

for copy in log:
    print(f"{copy.nbytes} bytes were copied on {copy.source}: {copy.cause}")
assert not nd.is_shared(original)
original[0], snapshot[0]

# %% [markdown]
# Where a copy would be a mistake, forbid it. Then what would copy raises an error that names the cause, and changes
# nothing.

# %%
snapshot = original.copy()
try:
    with nd.no_copies():
        original[0] = 2
except nd.errors.CopyError as error:
    print(error)
assert original[0] == 1

# %% [markdown]
# While another library could write to the memory, a copy cannot wait: here NumPy has it, so `copy` copies at once.

# %%
shared = nd.zeros(4)
a = np.from_dlpack(shared)
snapshot = shared.copy()
a[:] = 5
print(shared, snapshot)
assert snapshot[0] == 0

# %% [markdown]
# ## Look, but do not write
#
# `readonly` gives the same memory, for reading. That stays true on the way through another library, and back.

# %%
table = nd.arange(5)
view = nd.readonly(table)
a = np.from_dlpack(view)
print("NumPy may write:", a.flags.writeable)
print("after a round trip:", nd.from_dlpack(a).flags.writeable)

table[0] = 10  # the owner still may, and all see it
print(view, a)

# %% [markdown]
# A library can ignore that advice, as PyTorch does: it has no read-only tensors. If you cannot trust the other side, give
# it a copy.

# %% [markdown]
# ## When something is refused
#
# Errors say what is wrong, with which value, and what you can do. A write to what is read-only:

# %%
try:
    view[0] = 1
except ValueError as error:
    print(error)

# %% [markdown]
# It names two cures; a copy is one.

# %%
mine = view.copy()
mine[0] = 1
mine, table

# %% [markdown]
# Not every array can be handed to every library. Many cannot read memory backwards, for instance.

# %%
backwards = table[::-1]
try:
    np.from_dlpack(backwards)
except BufferError as error:
    print(error)

# %% [markdown]
# Again, take what is offered. The last way copies nothing; NumPy is a library that can read backwards.

# %%
forwards = np.from_dlpack(nd.ascontiguousarray(backwards))

with nd.dlpack.allow_negative_strides():
    a = np.from_dlpack(backwards)

print(forwards, a)
assert a.ctypes.data == nd.dlpack.inspect(table).address + 4 * table.itemsize

# %% [markdown]
# If you wonder what a library exports, ask `inspect`. It works with any object that speaks DLPack, and changes nothing.
# Here it says: 16 bits of a signed integer (which is code 0 in DLPack), in a single lane, and strides in elements.

# %%
information = nd.dlpack.inspect(np.zeros((2, 3), dtype=np.int16))
information.dtype, information.shape, information.strides, information.device

# %% [markdown]
# ## Where to go from here
#
# * The next notebook, `02_copy_or_zero_copy`, measures what a copy costs on your machine, and what you save.
# * `help(nd.from_dlpack)`, and of every other function: each has an example.
# * `python -m nbdlpack` shows the same story in a terminal.
