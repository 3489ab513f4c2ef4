"""Functions for the tests of the compiler: valid as Python too, where nothing but numbers is computed.

The tests load this file once for each way of compiling it, and more than once in a process.
"""

# mypy: ignore-errors
# ruff: noqa: A001, B023, C408, F821, PERF, RET, SIM, UP, F841

from __future__ import annotations

import ctypes
from ctypes import (
    CFUNCTYPE,
    POINTER,
    Structure,
    c_char_p,
    c_int,
    c_int8,
    c_int16,
    c_int32,
    c_int64,
    c_size_t,
    c_uint8,
    c_uint16,
    c_uint32,
    c_uint64,
    c_void_p,
)

from nbdlpack.native.compiler import (
    atomic_add,
    atomic_load,
    atomic_store,
    compare_exchange,
    extern,
    stack,
)

longs = POINTER(c_int64)
words = POINTER(c_void_p)
Binary = CFUNCTYPE(c_int64, c_int64, c_int64)
Narrow = CFUNCTYPE(c_int8, c_uint16, c_int8)

TEN, MINUS, YES, NO, TEXT = 10, -3, 1, 0, b"seven and three"
labs = extern("labs", c_int64, c_int64)
strlen = extern("strlen", c_size_t, c_char_p)
toupper = extern("toupper", c_int, c_int)
qsort = extern("qsort", None, c_void_p, c_size_t, c_size_t, c_void_p)
missing = extern("no_such_function_anywhere", c_int, optional=True)


def part(function):
    function.level = "inline"
    return function


# ---- numbers: what these return is compared with what Python returns


def add(a: c_int64, b: c_int64) -> c_int64:
    return a + b


def sub(a: c_int64, b: c_int64) -> c_int64:
    return a - b


def mul(a: c_int64, b: c_int64) -> c_int64:
    return a * b


def bits(a: c_int64, b: c_int64) -> c_int64:
    return (a & b) * 3 + (a | b) * 5 + (a ^ b) * 7


def unary(a: c_int64, b: c_int64) -> c_int64:
    return -a + ~b * 3 + +a - (-1) - ~1


def shifts(a: c_int64, b: c_int64) -> c_int64:
    return (a << (b & 63)) + (a >> (b & 63)) + (a << 3) + (a >> 62) + (1 << (b & 15))


def floor(a: c_int64, b: c_int64) -> c_int64:
    return a // b if b != 0 else 12


def modulo(a: c_int64, b: c_int64) -> c_int64:
    return a % b if b else 12


def by_constants(a: c_int64, b: c_int64) -> c_int64:
    return (a // 7) * 3 + a % 7 + (a // 8) * 5 + a % 8 + (b // -5) * 3 + b % -5 + b // 1 + b % 1 + b // -1 + b % -1


def folded(a: c_int64, b: c_int64) -> c_int64:
    return (a + (TEN * 3 - 4 // -3)) ^ (7 % -4 + (1 << 40) + (MINUS >> 1) + (TEN & 6 | 1) + (YES if TEN > 9 else a))


def compare(a: c_int64, b: c_int64) -> c_int64:
    x = (a < b) + (a <= b) * 2 + (a > b) * 4
    return x + (a >= b) * 8 + (a == b) * 16 + (a != b) * 32 + (not a) * 64 + (not a < b) * 128


def logic(a: c_int64, b: c_int64) -> c_int64:
    x = 1 if a and (b or not a) else 2
    y = a < b and b <= 1000 or a == TEN
    return x * 100 + y * 10 + (a and b) * 3 + (a or b) * 5 + (a and b or a) * 7 + (not (a and b)) + (0 or a or b and 9)


def with_constants(a: c_int64, b: c_int64) -> c_int64:
    x = (YES and a) + (NO and b) + (YES or a) + (NO or b) + (0 or 7) + (1 and 8) + (a and 0) + (a or 5)
    if a and NO or YES and not NO and b > 3 and 3 < TEN:
        x += 1
    return x


def ternary(a: c_int64, b: c_int64) -> c_int64:
    low = a if a < b else b
    return (5 if a else 6) * 100 + (low if low > 0 else -low if b > 7 else low + 1) + (a * 2 if b & 1 else b * 3)


def chosen(a: c_int64, b: c_int64) -> c_int64:
    if a < b:
        x, y = a, b
    elif a == b:
        x, y = 1, 1
    else:
        x, y = b, a
        if x == 0:
            return y
    if x:
        y += x
    return x * 1000 + y


def swapped(a: c_int64, b: c_int64) -> c_int64:
    a, b = b, a
    x = y = 3
    a -= b
    x += a
    return a * x + b * y


def gcd(a: c_int64, b: c_int64) -> c_int64:
    a, b = a & 1023 | 1, b & 1023 | 1
    while a != b:
        if a > b:
            a -= b
        else:
            b -= a
    return a


def loops(a: c_int64, b: c_int64) -> c_int64:
    total, n = 0, a & 7
    for i in range(n):
        for j in range(i, b & 15):
            total += i * j
            if j == 9:
                break
        else_ = total
        if i == 3:
            continue
        total ^= else_ << 1
    return total


def ranges(a: c_int64, b: c_int64) -> c_int64:
    total, i = 1, 77
    for i in range(b & 7, a & 15, 3):
        total = total * 3 + i
    for j in range(a & 15, b & 7, -2):
        total = total * 5 + j
    for k in range(4):
        k += total & 1
        total += k
    return total * 100 + i


def searching(a: c_int64, b: c_int64) -> c_int64:
    n = 0
    while YES:
        n += 1
        if n * n > (a & 0xFFFF):
            break
        if n & 1:
            continue
        if n == (b & 63):
            return -n
    return n


def nothing_left(a: c_int64, b: c_int64) -> c_int64:
    a = a & 7
    while 1:
        if a > 3 or b > 3:
            return a
        a += 1


def constant_ifs(a: c_int64, b: c_int64) -> c_int64:
    if NO:
        return not_a_name + a
    elif YES:
        a += 1
    if missing:
        a = missing()
    if not NO and YES:
        return a
    return not_a_name.field[b]


@part
def absolute(x: c_int64) -> c_int64:
    if x < 0:
        return -x
    return x


@part
def clipped(x: c_int8) -> c_int64:
    return x


@part
def twice_larger(x: c_int64, y: c_int64) -> c_int64:
    """Loops, names and returns of its own."""
    total = 0
    for i in range(2):
        larger = absolute(x) if absolute(x) > absolute(y) else absolute(y)
        if larger == 5:
            return 55 + i
        total += larger
    return total


def with_parts(a: c_int64, b: c_int64) -> c_int64:
    total = a
    for larger in range(3):
        total += twice_larger(b, larger) + absolute(-7)
    if absolute(a) and twice_larger(3, 2) == 6:
        total -= 1
    return total


def recursive(a: c_int64, b: c_int64) -> c_int64:
    n = a & 15
    if n < 2:
        return n + (b & 1)
    return recursive(n - 1, b) + recursive(n - 2, b)


def even(a: c_int64, b: c_int64) -> c_int64:
    return 1 if (a & 31) == 0 else odd((a & 31) - 1, b)


def odd(a: c_int64, b: c_int64) -> c_int64:
    return 0 if (a & 31) == 0 else even((a & 31) - 1, b)


NUMBERS = [
    add, sub, mul, bits, unary, shifts, floor, modulo, by_constants, folded, compare, logic, with_constants, ternary,
    chosen, swapped, gcd, loops, ranges, searching, nothing_left, constant_ifs, with_parts, recursive, even, odd,
]  # fmt: skip


# ---- memory


class Inner(Structure):
    _fields_ = [("a", c_int8), ("b", c_uint16), ("c", c_int), ("d", c_int64), ("e", c_int16 * 4)]


class Widths(Structure):
    _fields_ = [
        ("i8", c_int8), ("u8", c_uint8), ("i16", c_int16), ("u16", c_uint16), ("i32", c_int32), ("u32", c_uint32),
        ("i64", c_int64), ("u64", c_uint64), ("p", c_void_p), ("size", c_size_t), ("n", c_int64 * 16),
    ]  # fmt: skip


class Outer(Structure):
    _fields_ = [
        ("x", c_int64), ("inner", Inner), ("f", Binary), ("to", POINTER(Inner)), ("many", Inner * 3),
        ("grid", (c_int32 * 4) * 3), ("g", Narrow),
    ]  # fmt: skip


class Derived(Inner):
    _fields_ = [("more", c_int64)]


def read_widths(w: Widths):
    w.n[0], w.n[1], w.n[2], w.n[3] = w.i8, w.u8, w.i16, w.u16
    w.n[4], w.n[5], w.n[6], w.n[7] = w.i32, w.u32, w.i64, w.u64
    w.n[8], w.n[9] = w.p, w.size


def write_widths(w: Widths, n: c_int64):
    w.i8, w.u8, w.i16, w.u16, w.i32, w.u32, w.i64, w.u64, w.p, w.size = n, n, n, n, n, n, n, n, n, n


def change_widths(w: Widths, n: c_int64):
    w.i8 += n
    w.u8 -= n
    w.i16 *= n
    w.u16 ^= n
    w.i32 |= n
    w.u32 += n
    w.i64 -= n
    w.u64 <<= 3
    w.n[n & 15] += n


def pass_i8(x: c_int8) -> c_int8:
    return x + 1


def pass_u8(x: c_uint8) -> c_uint8:
    return x + 1


def pass_i16(x: c_int16) -> c_int16:
    return x + 1


def pass_u16(x: c_uint16) -> c_uint16:
    return x + 1


def pass_i32(x: c_int32) -> c_int32:
    return x + 1


def pass_u32(x: c_uint32) -> c_uint32:
    return x + 1


def pass_i64(x: c_int64) -> c_int64:
    return x + 1


def pass_u64(x: c_uint64) -> c_uint64:
    return x + 1


def cut_off(n: c_int64) -> c_int64:
    """Arguments and results of compiled functions are cut off too, and casts, and what is passed to parts."""
    return pass_u8(n) * 1000 + pass_i8(n) + c_int16(n) * 7 + c_uint32(n) * 3 + c_int64(n) + clipped(n)


def many(a: c_int8, b: c_uint16, c: c_int64, d: c_int, e: c_uint8, f: c_int16, g: c_int64, h: c_int8, i: c_uint32) -> c_int64:  # fmt: skip
    return a + b * 2 + c * 3 + d * 4 + e * 5 + f * 6 + g * 7 + h * 8 + i * 9


def call_many(n: c_int64) -> c_int64:
    return many(n, n, n, n, n, n, n, n, n)


def fields(q: Outer) -> c_int64:
    p = q.inner
    p.e[2] = p.a + p.b
    p.a, p.b = p.b, p.a
    q.x += p.c
    return q.x + p.e[2] + q.f(p.c, p.d)


def places(q: Outer, i: c_int64) -> c_int64:
    q.to.d = 5
    q.to[1].e[i] = 6
    q.many[i].e[3] = q.to.d + i
    q.many[2].c = i
    q.grid[i][2] = 7
    q.grid[1][i] += 1
    row = q.grid[2]
    row[i] = q.grid[i][2]
    other = Inner(q.to + 0)
    other.c += 100
    at = longs(q.many)
    last = q.many[i]
    last.a = at == q.many
    return q.many[i].e[3] * 10 + row[i]


def nullable(q: Outer, n: c_int64) -> c_int64:
    """What may be null has the type of what it is else."""
    p = 0 if n == 0 else q.to
    same = 0 if n == 0 else q
    either = n > 1 and q.to
    other = q if n else 0
    return p.c + same.x + other.x + (either.c if either else 0) if p else -1


def derived(d: Derived) -> c_int64:
    d.more += d.c
    return d.more


def through(p: longs, w: words, n: c_int64):
    p[1] = ~p[0] >> 1
    p[n] = p[n - 1] + 1
    w[0] = w[1] if w[1] else p


def table(n: c_int64) -> c_int64:
    t, pair = stack(c_int64 * 16), stack(Inner)
    for i in range(16):
        t[i] = i * i
    pair.d, pair.a = 0, 1
    for i in range(n & 15):
        pair.d += t[i] if i & 1 else -t[i]
    return pair.d << 2 | pair.a


def text(n: c_int64) -> c_void_p:
    return b"hello" if n else TEXT


def nothing(p: longs):
    if p[0]:
        return
    p[0] = 1


@part
def count_up(p: longs):
    if p[1] > 2:
        return
    p[1] += 1


def count(p: longs, n: c_int64):
    for i in range(n):
        count_up(p)
        nothing(p)


@part
def mark(p: longs, result: c_int64) -> c_int64:
    p[0] = p[0] * 10 + result + 1
    return result


def circuits(p: longs, a: c_int64, b: c_int64, c: c_int64) -> c_int64:
    x = mark(p, a) and mark(p, b) or mark(p, c)
    if mark(p, a) or mark(p, b) and not mark(p, c):
        x += 10
    y = mark(p, b) if mark(p, c) else mark(p, a)
    while not (mark(p, 1) or mark(p, 0)):
        x += 1000
    return x + y * 100


# ---- calls


def call_c(n: c_int64) -> c_int64:
    return labs(n) + strlen(TEXT) * 1000 + toupper(97 + (n & 7))


def call_pointer(f: Binary, g: Narrow, n: c_int64) -> c_int64:
    h = f
    return h(n, 2) + f(n, 3) + g(n, n)


def call_fields(q: Outer, n: c_int64) -> c_int64:
    return q.f(n, 3) + q.g(n, n)


def smaller(a: longs, b: longs) -> c_int:
    return (a[0] > b[0]) - (a[0] < b[0])


def sort(p: longs, n: c_int64):
    qsort(p, n, 8, smaller)


def address_of_smaller() -> c_void_p:
    return smaller


def address_of_c() -> c_void_p:
    return labs


# ---- atomic operations


class Atoms(Structure):
    _fields_ = [("i64", c_int64), ("i32", c_int32), ("u32", c_uint32), ("i16", c_int16), ("u8", c_uint8), ("n", c_int64 * 3)]  # fmt: skip


class Holder(Structure):
    _fields_ = [("pad", c_int64), ("atoms", POINTER(Atoms))]


def add_i64(p: Atoms, k: c_int64) -> c_int64:
    return atomic_add(p.i64, k)


def add_i32(p: Atoms, k: c_int64) -> c_int64:
    return atomic_add(p.i32, k)


def add_u32(p: Atoms, k: c_int64) -> c_int64:
    return atomic_add(p.u32, k)


def add_i16(p: Atoms, k: c_int64) -> c_int64:
    return atomic_add(p.i16, k)


def add_u8(p: Atoms, k: c_int64) -> c_int64:
    return atomic_add(p.u8, k)


def exchange(p: Atoms, i: c_int64, old: c_int64, new: c_int64) -> c_int64:
    return compare_exchange(p.n[i], old, new) * 10 + compare_exchange(p.i16, old, new)


def load_store(h: Holder, k: c_int64) -> c_int64:
    atomic_store(h.atoms.u8, k)
    atomic_store(h.atoms.n[1], atomic_load(h.atoms.i32) + atomic_load(h.atoms.u8))
    return atomic_load(h.atoms.n[1])


def contend(p: Atoms, k: c_int64):
    for i in range(k):
        atomic_add(p.i64, 1)
        old = atomic_load(p.n[0])
        while not compare_exchange(p.n[0], old, old + 3):
            old = atomic_load(p.n[0])
        while not compare_exchange(p.u32, 0, 1):
            pass
        p.n[2] += 1
        atomic_store(p.u32, 0)


def wait_for(p: Atoms, k: c_int64):
    while atomic_load(p.i64) != k:
        pass
    atomic_store(p.i32, p.n[1])


MEMORY = [
    read_widths, write_widths, change_widths, pass_i8, pass_u8, pass_i16, pass_u16, pass_i32, pass_u32, pass_i64,
    pass_u64, cut_off, many, call_many, fields, places, nullable, derived, through, table, text, nothing, count, circuits, call_c,
    call_pointer, call_fields, smaller, sort, address_of_smaller, address_of_c, add_i64, add_i32, add_u32, add_i16,
    add_u8, exchange, load_store, contend, wait_for,
]  # fmt: skip
PARTS = [absolute, clipped, twice_larger, count_up, mark]
