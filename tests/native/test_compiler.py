"""The compiler against Python, on every construct, for every way of compiling a function."""

from __future__ import annotations

import ctypes
import importlib.util
import itertools
import sys
import threading
from ctypes import CFUNCTYPE, POINTER, PYFUNCTYPE, addressof, c_int, c_int64, c_void_p, py_object
from pathlib import Path
from typing import Any

import pytest

from nbdlpack.native import compiler

LEVELS = ["native", "hot", "cold"]
EDGES = [
    *(0, 1, -1, 2, -2, 3, 4, 7, 8, 9, 10, -5, 63, 64, 255, 1000, -1000),
    *(1 << 31, -(1 << 31), (1 << 40) + 5, 1 << 62, -(1 << 62), (1 << 63) - 1, 1 - (1 << 63)),
]
LEAST = -(1 << 63)
Numbers = CFUNCTYPE(c_int64, c_int64, c_int64)


def wrapped(n: int) -> int:
    return (n + (1 << 63)) % (1 << 64) - (1 << 63)


def load(file: str, name: str) -> Any:
    """Load a file of functions as a module of its own, and not yet of any level."""
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(file + ".py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def at_level(level: str, functions: list[Any]) -> list[Any]:
    for function in functions:
        function.level = level
        if level == "cold":
            function.failure = -1
    return functions


class Samples:
    """The samples compiled in one way: `samples.f` is a callable as ctypes makes it of f's own annotations."""

    def __init__(self, level: str) -> None:
        self.module = load("compiler_samples", f"tests.native.compiler_samples_{level}")
        members = [*self.module.NUMBERS, *self.module.MEMORY]
        if level == "cold":  # what has no result cannot be
            cold = [f for f in members if "return" in f.__annotations__]
            at_level("native", [f for f in members if f not in cold])
            at_level(level, cold)
        else:
            at_level(level, members)
        self.addresses = compiler.compile_functions([*members, *self.module.PARTS])

    def __getattr__(self, name: str) -> Any:
        function = getattr(self.module, name)
        if name not in self.addresses:
            return function
        kinds = {key: eval(kind, self.module.__dict__) for key, kind in function.__annotations__.items()}
        result = kinds.pop("return", None)
        pointers = [POINTER(k) if issubclass(k, ctypes.Structure) else k for k in kinds.values()]
        # PYFUNCTYPE: cold functions run Python.
        return PYFUNCTYPE(result, *pointers)(self.addresses[name])


@pytest.fixture(scope="module", params=LEVELS)
def samples(request) -> Samples:
    return Samples(request.param)


@pytest.fixture(scope="module")
def expected() -> dict[Any, int]:
    return {}


REFERENCE = load("compiler_samples", "tests.native.compiler_samples")
ANY_NUMBERS = ["add", "sub", "mul", "bits", "unary", "shifts", "floor", "modulo", "by_constants", "folded", "compare"]


@pytest.mark.parametrize("name", [function.__name__ for function in REFERENCE.NUMBERS])
def test_numbers_are_pythons(samples, expected, name):
    compiled, python = getattr(samples, name), getattr(REFERENCE, name)
    numbers = [*EDGES, LEAST] if name in ANY_NUMBERS else EDGES
    for pair in itertools.product(numbers, repeat=2):
        key = name, *pair
        if key not in expected:
            expected[key] = wrapped(int(python(*pair)))
        assert compiled(*pair) == expected[key], pair


def test_no_number_is_a_trap():
    source = "def f(a: c_int64, b: c_int64) -> c_int64:\n    return (a // b) * 0 + (a % b) * 0 + (a << b)\n"
    module = make(source, "tests.native.dividing_by_0")
    f = Numbers(compiler.compile_functions([module.f])["f"])
    assert f(5, 0) == 5
    assert f(LEAST, -1) == 0
    assert f(1, 65) == 2


def make(source: str, name: str) -> Any:
    """A module of a text."""

    class Loader:
        def get_source(self, _: str) -> str:
            return source

    module = type(sys)(name)
    module.__dict__.update(ctypes.__dict__ | compiler.__dict__ | {"__name__": name, "__loader__": Loader()})
    sys.modules[name] = module
    exec(compile(source, name, "exec"), module.__dict__)
    return module


# ---- memory --------------------------------------------------------------------------------------------------------

WIDTHS = ["i8", "u8", "i16", "u16", "i32", "u32", "i64", "u64", "p", "size"]


def as_word(structure: Any, name: str) -> int:
    value = getattr(structure, name)
    return wrapped(0 if value is None else value)


@pytest.mark.parametrize("n", [*EDGES, LEAST, 127, 128, -128, -129, 32767, 32768, 65535, 65536, 1 << 32])
def test_integers_of_every_width(samples, n):
    w, reference = samples.module.Widths(), samples.module.Widths()
    samples.write_widths(w, n)
    kinds = dict(samples.module.Widths._fields_)
    for name in WIDTHS:
        setattr(reference, name, kinds[name](n).value)
    assert bytes(w) == bytes(reference)
    samples.read_widths(w)
    assert [*w.n[:10]] == [as_word(reference, name) for name in WIDTHS]
    for name in WIDTHS[:8]:
        kind = kinds[name]
        assert getattr(samples, f"pass_{name}")(kind(n)) == kind(kind(n).value + 1).value
    before = {name: getattr(reference, name) for name in WIDTHS[:8]}
    samples.change_widths(reference, n)
    changed = {
        "i8": before["i8"] + n,
        "u8": before["u8"] - n,
        "i16": before["i16"] * n,
        "u16": before["u16"] ^ n,
        "i32": before["i32"] | n,
        "u32": before["u32"] + n,
        "i64": before["i64"] - n,
        "u64": before["u64"] << 3,
    }
    assert {name: getattr(reference, name) for name in changed} == {k: kinds[k](v).value for k, v in changed.items()}
    assert reference.n[n & 15] == n


@pytest.mark.parametrize("n", [0, 1, -1, 127, 128, 255, 256, 40000, -40000, (1 << 31) + 5, 1 << 33])
def test_narrow_arguments_and_results(samples, n):
    u8, i8 = ctypes.c_uint8(ctypes.c_uint8(n).value + 1).value, ctypes.c_int8(ctypes.c_int8(n).value + 1).value
    i16, u32, least = ctypes.c_int16(n).value, ctypes.c_uint32(n).value, ctypes.c_int8(n).value
    assert samples.cut_off(n) == u8 * 1000 + i8 + i16 * 7 + u32 * 3 + n + least
    kinds = samples.many.argtypes
    assert samples.call_many(n) == sum(kind(n).value * (i + 1) for i, kind in enumerate(kinds))
    assert samples.many(*[kind(n) for kind in kinds]) == samples.call_many(n)


def test_structures(samples):
    module = samples.module
    q = module.Outer(5, module.Inner(-3, 40000, -7, 9), module.Binary(lambda i, j: i + j))
    assert samples.fields(q) == 5 - 7 + ctypes.c_int16(-3 + 40000).value + 2
    assert (q.inner.a, q.inner.b) == (ctypes.c_int8(40000).value, ctypes.c_uint16(-3).value)
    assert q.inner.e[2] == ctypes.c_int16(39997).value


@pytest.mark.parametrize("i", [0, 1, 2])
def test_arrays_and_pointers(samples, i):
    module = samples.module
    two = (module.Inner * 2)()
    q = module.Outer(to=ctypes.cast(two, POINTER(module.Inner)))
    assert samples.places(q, i) == (5 + i) * 10 + q.grid[2][i]
    grid = [[0] * 4 for _ in range(3)]
    grid[i][2] = 7
    grid[1][i] += 1
    grid[2][i] = grid[i][2]
    assert [list(row) for row in q.grid] == grid
    assert two[0].d == 5
    assert two[1].e[i] == 6
    assert two[0].c == 100
    assert q.many[i].e[3] == 5 + i
    assert q.many[2].c == i
    assert q.many[i].a == 1


@pytest.mark.parametrize(("n", "result"), [(0, -1), (1, 3 + 5 + 5), (2, 3 + 5 + 5 + 3)])
def test_null_pointers_have_a_type(samples, n, result):
    inner = samples.module.Inner(c=3)
    assert samples.nullable(samples.module.Outer(x=5, to=ctypes.pointer(inner)), n) == result


def test_inherited_fields(samples):
    d = samples.module.Derived(c=3, more=4)
    assert samples.derived(d) == d.more == 7


def test_items_of_pointers(samples):
    p, w = (c_int64 * 3)(41, 0, 0), (c_void_p * 2)(None, 17)
    samples.through(p, ctypes.cast(w, POINTER(c_void_p)), 2)
    assert [*p] == [41, ~41 >> 1, (~41 >> 1) + 1]
    assert w[0] == 17
    w[1] = None
    samples.through(p, ctypes.cast(w, POINTER(c_void_p)), 2)
    assert w[0] == addressof(p)


@pytest.mark.parametrize("n", range(16))
def test_room_on_the_stack(samples, n):
    assert samples.table(n) == (sum(i * i if i & 1 else -i * i for i in range(n)) << 2 | 1)


def test_texts(samples):
    assert ctypes.string_at(samples.text(1)) == b"hello"
    assert ctypes.string_at(samples.text(0)) == b"seven and three"


def test_functions_without_a_result(samples):
    p = (c_int64 * 2)(0, 0)
    samples.nothing(p)
    assert [*p] == [1, 0]
    samples.nothing(p)
    assert [*p] == [1, 0]
    p[0] = 0
    samples.count(p, 2)
    assert [*p] == [1, 2]
    samples.count(p, 5)
    assert [*p] == [1, 3]


@pytest.mark.parametrize("values", [*itertools.product([0, 1], repeat=3)])
def test_only_what_is_needed_is_evaluated(samples, values):
    compiled, python = (c_int64 * 1)(), [0]
    assert samples.circuits(compiled, *values) == REFERENCE.circuits(python, *values)
    assert compiled[0] == python[0]


# ---- calls ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, -5, 3, 1 << 40])
def test_functions_of_c(samples, n):
    assert samples.call_c(n) == abs(n) + len(REFERENCE.TEXT) * 1000 + ord("ABCDEFGH"[n & 7])
    assert samples.address_of_c() == REFERENCE.labs.address


@pytest.mark.parametrize("n", [0, 1, -1, 200, -200, 70000])
def test_pointers_to_functions(samples, n):
    module = samples.module
    f, g = module.Binary(lambda i, j: i * j), module.Narrow(lambda i, j: (i + j) % 100)
    result = (ctypes.c_uint16(n).value + ctypes.c_int8(n).value) % 100
    assert samples.call_pointer(f, g, n) == n * 5 + result
    assert samples.call_fields(module.Outer(f=f, g=g), n) == n * 3 + result


def test_c_calls_compiled_functions(samples):
    numbers = [5, -3, 12, 0, 5, -100, 7]
    p = (c_int64 * 7)(*numbers)
    samples.sort(p, 7)
    assert [*p] == sorted(numbers)
    assert samples.address_of_smaller() == samples.addresses["smaller"]


@pytest.fixture(scope="module")
def others() -> dict[str, int]:
    """Functions of two modules and all levels."""
    others, shared = load("compiler_others", "tests.native.compiler_others"), REFERENCE
    native = [others.elsewhere, others.quick, others.quick_addresses, others.set_and_call, shared.gcd, shared.recursive]
    cold = [others.rare, others.alone, others.rare_addresses, others.rare_raise, others.rare_pending]
    hot = [others.fast, others.fast_addresses]
    members = [*at_level("native", native), *at_level("hot", hot), *at_level("cold", cold), *shared.PARTS]
    return dict(compiler.compile_functions(members))


def test_calls_of_other_modules(others):
    f, python = Numbers(others["elsewhere"]), sys.modules["tests.native.compiler_others"].elsewhere
    for pair in itertools.product([0, 1, 7, 12, -30], repeat=2):
        assert f(*pair) == python(*pair)


def test_calls_between_levels(others):
    quick, python = PYFUNCTYPE(c_int64, c_int64)(others["quick"]), sys.modules["tests.native.compiler_others"].quick
    assert [quick(n) for n in range(-3, 500, 7)] == [python(n) for n in range(-3, 500, 7)]


def test_a_function_has_one_address(others):
    seen = []
    for name in ("quick_addresses", "fast_addresses", "rare_addresses"):
        p = (c_int64 * 4)()
        PYFUNCTYPE(c_int64, POINTER(c_int64))(others[name])(p)
        seen.append([*p])
    assert seen == [[others[name] for name in ("quick", "fast", "rare", "alone")]] * 3


# ---- atomic operations ---------------------------------------------------------------------------------------------

ATOMS = {"i64": c_int64, "i32": ctypes.c_int32, "u32": ctypes.c_uint32, "i16": ctypes.c_int16, "u8": ctypes.c_uint8}


@pytest.mark.parametrize("name", ATOMS)
def test_atomic_add(samples, name):
    atoms, kind = samples.module.Atoms(), ATOMS[name]
    for start, k in itertools.product([0, 1, -1, 127, 128, 255], [*EDGES, LEAST]):
        setattr(atoms, name, kind(start).value)
        assert getattr(samples, f"add_{name}")(atoms, k) == kind(start).value
        assert getattr(atoms, name) == kind(start + k).value


def test_compare_exchange(samples):
    atoms = samples.module.Atoms()
    for was, old, i in itertools.product([0, 1, -1, 300, 1 << 17], [0, 1, -1, 300], range(3)):
        atoms.n[i], atoms.i16 = was, was
        narrow = ctypes.c_int16(was).value
        assert samples.exchange(atoms, i, old, 77) == (was == old) * 10 + (narrow == ctypes.c_int16(old).value)
        assert atoms.n[i] == (77 if was == old else was)
        assert atoms.i16 == (77 if narrow == ctypes.c_int16(old).value else narrow)


def test_atomic_load_and_store(samples):
    atoms = samples.module.Atoms(i32=-5)
    holder = samples.module.Holder(0, ctypes.pointer(atoms))
    assert samples.load_store(holder, 300) == atoms.n[1] == 44 - 5
    assert atoms.u8 == 44


def released(samples: Samples, name: str) -> Any:
    """A function to be called without the GIL, so that threads contend."""
    return CFUNCTYPE(None, c_void_p, c_int64)(samples.addresses[name])


def test_atomic_operations_under_contention(samples):
    atoms, turns, threads = samples.module.Atoms(), 50_000, 4
    contend = released(samples, "contend")
    workers = [threading.Thread(target=contend, args=(addressof(atoms), turns)) for _ in range(threads)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert (atoms.i64, atoms.n[0], atoms.n[2], atoms.u32) == (turns * threads, turns * threads * 3, turns * threads, 0)


def test_who_waits_sees_what_was_stored_before(samples):
    wait_for = released(samples, "wait_for")
    for turn in range(50):
        atoms = samples.module.Atoms()
        worker = threading.Thread(target=wait_for, args=(addressof(atoms), 1))
        worker.start()
        atoms.n[1] = turn
        samples.add_i64(atoms, 1)
        worker.join()
        assert atoms.i32 == turn


# ---- cold functions ------------------------------------------------------------------------------------------------


@pytest.fixture
def parsed(monkeypatch) -> list[str]:
    """The functions whose source is parsed, as it happens."""
    seen: list[str] = []
    parse = compiler.Sources.parse

    def watched(self, function):
        seen.append(function.__name__)
        return parse(self, function)

    monkeypatch.setattr(compiler.Sources, "parse", watched)
    return seen


def fresh_cold(name: str) -> dict[str, int]:
    module = load("compiler_others", name)
    functions = [module.rare, module.alone, module.rare_addresses, module.rare_raise, module.rare_pending]
    at_level("native", [module.quick, module.set_and_call])
    at_level("hot", [module.fast])
    compiled = [*at_level("cold", functions), module.quick, module.fast, module.set_and_call]
    return dict(compiler.compile_functions(compiled))


def test_cold_functions_wait_for_their_first_call(parsed):
    code = fresh_cold("tests.native.waiting")
    assert "rare" not in parsed
    assert "alone" not in parsed
    f = PYFUNCTYPE(c_int64, c_int64, c_int)(code["rare"])
    parsed.clear()
    assert f(1, 2) == (1 << 20) + 3
    assert sorted(parsed) == ["alone", "rare", "rare_addresses", "rare_pending", "rare_raise"]
    parsed.clear()
    assert f(3, 4) == (1 << 20) + 7
    assert PYFUNCTYPE(c_int64)(code["alone"])() == 1 << 20
    assert parsed == []


def test_errors_of_cold_functions_pass_through():
    code = fresh_cold("tests.native.raising")
    f = PYFUNCTYPE(c_int, c_int64)(code["rare_raise"])
    for _ in range(2):
        assert f(0) == 7
        with pytest.raises(ValueError, match="from a cold function"):
            f(1)


def test_an_exception_that_is_set_before_the_first_call_stays():
    code = fresh_cold("tests.native.pending")
    f = PYFUNCTYPE(c_int64)(code["set_and_call"])
    for _ in range(2):
        with pytest.raises(ValueError, match="set before"):
            f()
    as_number = PYFUNCTYPE(c_int64)(code["rare_pending"])
    assert as_number() == 0


@pytest.mark.parametrize("failure", [0, -1])
def test_a_cold_function_that_cannot_be_compiled_raises(failure):
    module = load("compiler_failing", f"tests.native.failing{failure}")
    functions = at_level("cold", [module.broken, module.beside])
    for function in functions:
        function.failure = failure
    code = compiler.compile_functions(functions)
    results: list[int] = []
    for name in ("broken", "beside", "broken"):
        with pytest.raises(SyntaxError, match=r"broken, line 11: '\[n\]' cannot be compiled"):
            results.append(PYFUNCTYPE(c_int64, c_int64)(code[name])(5))
    assert results == []
    assert result_without_exception(code["beside"])(5) == failure


def result_without_exception(address: int) -> Any:
    """A function that calls another, forgets its exception, and returns its result."""
    source = """
clear = extern("PyErr_Clear", None)
Function = PYFUNCTYPE(c_int64, c_int64)

def relay(n: c_int64) -> c_int64:
    f = Function(ADDRESS)
    result = f(n)
    clear()
    return result
"""
    module = make(source, f"tests.native.relay{address}")
    module.ADDRESS = address
    return PYFUNCTYPE(c_int64, c_int64)(compiler.compile_functions([module.relay])["relay"])


def test_first_calls_from_several_threads():
    for turn in range(5):
        code = fresh_cold(f"tests.native.threads{turn}")
        f = PYFUNCTYPE(c_int64, c_int64, c_int)(code["rare"])
        barrier, results = threading.Barrier(4), list[int]()

        def work(i, barrier=barrier, results=results, f=f):
            barrier.wait()
            results.append(f(i, 0) - i)

        workers = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert results == [1 << 20] * 4


def test_cold_functions_need_a_result():
    module = load("compiler_others", "tests.native.resultless")
    with pytest.raises(TypeError, match="without_result has no result to tell a failure by"):
        compiler.compile_functions(at_level("cold", [module.without_result]))
    with pytest.raises(TypeError, match=r"use @cold\(0\)"):
        compiler.cold(module.rare)


# ---- refusals ------------------------------------------------------------------------------------------------------

HEAD = """
class S(Structure):
    _fields_ = [("x", c_int64), ("y", c_double), ("bits", c_int, 3), ("inner", c_int * 5)]

def part() -> c_int64:
    return part()
part.level = "inline"

def no_end() -> c_int64:
    while 1:
        pass
no_end.level = "inline"

def two(a: c_int64, b: c_int64) -> c_int64:
    return a
"""

REFUSED = [
    ("return [a]", "'[a]' cannot be compiled"),
    ("return a / 2", "'return a / 2' cannot be compiled"),
    ("return a ** 2", "'return a ** 2'"),
    ("return a is None", "cannot be compiled"),
    ("return 0 < a < 5", "'return 0 < a < 5'"),
    ("return 'text'", "it is no constant that can be"),
    ("return 1.5", "it is no constant that can be"),
    ("return unknown", "'unknown' cannot be compiled: it may have no value here"),
    ("if a:\n        x = 1\n    return x", "'x' cannot be compiled: it may have no value here"),
    ("for i in range(a):\n        x = i\n    return x", "'x' cannot be compiled: it may have no value here"),
    ("for i in range(0, a, a):\n        pass\n    return 1", "the step must be a constant"),
    ("for i in range(0, a, 0):\n        pass\n    return 1", "the step must be a constant"),
    ("for i in (1, 2):\n        pass\n    return 1", "only loops over a range"),
    ("for i in two(a, a):\n        pass\n    return 1", "only loops over a range"),
    ("while a:\n        a -= 1\n    else:\n        a = 1\n    return a", "no else after a loop"),
    ("with a:\n        pass\n    return 1", "cannot be compiled"),
    ("a += 1", "f can end without a result"),
    ("if a:\n        return 1", "f can end without a result"),
    ("return", "the function has a result"),
    ("return two(a)", "'return two(a)' cannot be compiled: ValueError"),
    ("return two(a, a, a)", "'return two(a, a, a)' cannot be compiled: ValueError"),
    ("return two(a, b=a)", "no keywords"),
    ("return part()", "it would be part of itself"),
    ("return no_end()", "it does not return"),
    ("g = part\n    return 1", "part has no code of its own"),
    ("return S(a).z", "KeyError"),
    ("return S(a).y", "c_double is not an integer or an address"),
    ("return S(a).bits", "it is a bit field"),
    ("S(a).inner = a\n    return 1", "structures and arrays are not assigned"),
    ("return atomic_add(S(a).inner, 1)", "cannot be compiled"),
    ("return a[0]", "'return a[0]' cannot be compiled"),
    ("return a.x", "'return a.x' cannot be compiled"),
    ("return a(1)", "'return a(1)' cannot be compiled"),
    ("return atomic_load(a)", "it is no place in memory"),
    ("return print(a)", "cannot be compiled"),
    ("a: c_int64 = 5\n    return a", "cannot be compiled"),
]


@pytest.mark.parametrize(("body", "message"), REFUSED)
def test_what_cannot_be_compiled_is_quoted(body, message):
    module = make(f"{HEAD}\ndef f(a: c_int64) -> c_int64:\n    {body}\n", "tests.native.refused")
    with pytest.raises(SyntaxError) as caught:
        compiler.compile_functions([module.f, module.two])
    assert message in str(caught.value)
    assert "tests.native.refused.f" in str(caught.value) or "it would be part of itself" in str(caught.value)


def test_a_result_where_there_is_none():
    module = make("def f(a: c_int64):\n    return a\n", "tests.native.refused")
    with pytest.raises(SyntaxError, match="line 2: 'return a' cannot be compiled: the function has no result"):
        compiler.compile_functions([module.f])


def test_floating_point_parameters_are_refused():
    module = make("def f(a: c_double) -> c_int64:\n    return 1\n", "tests.native.refused")
    with pytest.raises(TypeError, match="c_double is not an integer or an address"):
        compiler.compile_functions([module.f])


def test_names_are_unique():
    one, two = (make("def same() -> c_int64:\n    return 1\n", f"tests.native.same{i}") for i in range(2))
    message = "tests.native.same0 and tests.native.same1 both have a native function 'same'"
    with pytest.raises(ValueError, match=message):
        compiler.compile_functions([one.same, two.same])


def test_source_is_needed():
    module = make("def f() -> c_int64:\n    return 1\n", "tests.native.no_source")
    module.__loader__.get_source = lambda _: None
    with pytest.raises(ImportError, match=r"the source of tests\.native\.no_source"):
        compiler.compile_functions([module.f])


# ---- what modules are written with ---------------------------------------------------------------------------------


def test_decorators_register():
    def f():
        pass

    known = len(compiler.functions)
    try:
        for mark, level in ((compiler.native, "native"), (compiler.hot, "hot"), (compiler.inline, "inline")):
            assert mark(f) is f
            assert vars(f)["level"] == level
        assert compiler.cold(-1)(f) is f
        assert (vars(f)["level"], vars(f)["failure"]) == ("cold", -1)
        assert compiler.functions[known:] == [f] * 4
    finally:
        del compiler.functions[known:]


def test_functions_of_c_that_may_be_missing():
    assert not compiler.extern("no_such_function", c_int, optional=True)
    assert compiler.extern("strlen", c_int, optional=True)
    with pytest.raises(AttributeError, match="no_such_function"):
        compiler.extern("no_such_function", c_int)


@pytest.mark.parametrize("name", ["stack", "atomic_add", "compare_exchange", "atomic_load", "atomic_store"])
def test_what_only_compiled_functions_can(name):
    arguments = {"stack": 1, "atomic_load": 1, "compare_exchange": 3}.get(name, 2)
    with pytest.raises(TypeError, match="only"):
        getattr(compiler, name)(*[None] * arguments)


def test_immortal_things_stay():
    value = [object()]
    before = sys.getrefcount(value)
    assert compiler.immortal(value) is value
    assert sys.getrefcount(value) == before + 1
    ctypes.pythonapi.Py_DecRef(py_object(value))


def test_multi_line_functions_and_odd_layouts():
    source = '''
def first(
    a: c_int64,
    b: c_int64,
) -> c_int64:
    """A text
of which a line begins at the left.
    """
    return two_of(
        a,
        b,
)

def two_of(a: c_int64, b: c_int64) -> c_int64: return a * 10 + b
X = 1
def last(a: c_int64, b: c_int64) -> c_int64:
    # comment

    return (a
            + b)'''
    module = make(source, "tests.native.layouts")
    code = compiler.compile_functions([module.first, module.two_of, module.last])
    assert Numbers(code["first"])(3, 4) == 34
    assert Numbers(code["two_of"])(5, 6) == 56
    assert Numbers(code["last"])(5, 6) == 11
