"""Copies, lazy copies and exchange over the size of the array."""

from __future__ import annotations

from benchmarks.harness import Row

TITLE = "Copy or zero-copy: what depends on the size"
SIZES = [1 << n for n in range(10, 29, 2)]

WORDS = {
    # so many bytes, written to once, so that the memory is there
    "a": "np.ones(nbytes // 4, dtype='f4')",
    "x": "nd.ones(nbytes // 4, dtype=nd.float32)",
}

CURVES = {
    "lazy copy, x.copy()": "x.copy()",
    "exchange, nd.from_dlpack(a)": "nd.from_dlpack(a)",
    "exchange, np.from_dlpack(x)": "np.from_dlpack(x)",
}


def rows(largest: int) -> list[Row]:
    """Return the rows with a target, for one large array, then those of the plot."""
    large = {"nbytes": min(largest, 1 << 30)}
    size = words_of(large["nbytes"])
    limits = [
        Row(f"x.copy() of {size}", "x.copy()", None, 5e-6, words=large),
        # A name keeps what is new, so that giving memory back is timed on neither side.
        Row(f"the first write after it, {size}", "y[0] = 1", "b = a.copy()", 1.1, "y = x.copy()", large, number=1),
    ]
    curves = [
        Row(f"{name}, {words_of(size)}", statement, "a.copy()", words={"nbytes": size}, curve=(name, size))
        for name, statement in CURVES.items()
        for size in SIZES
        if size <= largest
    ]
    return [*limits, *curves]


def words_of(size: int) -> str:
    """Return a size in words: "16 KiB"."""
    for unit, length in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if size >= length:
            return f"{size // length} {unit}"
    return f"{size} B"
