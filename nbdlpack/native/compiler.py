"""C written as Python: `compile_functions` turns annotated Python functions into machine code, by LLVM.

The functions are translated and never run by Python.

Words
    ctypes is the type system.  Every value is a signed 64-bit word with a ctypes type that says how to read it.
    A Structure, Array or POINTER type makes the word an address, so that `x.field` and `x[i]` load and store what that
    type says is there; a CFUNCTYPE makes it the address of a function, to be called.  A parameter annotated with a
    Structure is thus a pointer to one.  A structure or array within another stands for its address; an attribute of a
    POINTER's word is one of what it points to.  Narrow integers are widened by their sign when they are loaded, and cut
    off when they are stored, passed or returned.  `address + n` is n bytes on.  The type of a local is that of the
    first expression, in the order of the text, that is assigned to it.
Names
    A name is a local, a compiled function of any module (as a value, the address of its code), or a constant of the
    function's module: an int, a bytes (a C string, never freed), an `extern` function, or a type, which casts a word.
Expressions
    + - * // % & | ^ << >> ~, comparisons of two, and, or, not, a if b else c, calls.  They are Python's, on 64 bits:
    // and % round down, `a or b` is one of the two.  Shifts count modulo 64; dividing by 0 gives an undefined number.
    `stack(type)` is room in the frame.  `atomic_add(place, n)` (the old value), `compare_exchange(place, old, new)`
    (whether it did), `atomic_load(place)` and `atomic_store(place, n)` work on a field or an item, sequentially
    consistent, but for a store, which releases: who sees it sees what was done before it.
Statements
    Assignments, if, while, for over range, break, continue, pass, return.  What is false by the constants of the
    module (`if COUNT_ALL:`) is left out.

As in C, nothing is checked when the code runs.  What cannot be compiled raises SyntaxError and is quoted.

Plain loads and stores are ordinary memory accesses of LLVM: they stay in order with atomic operations and with calls of
functions that are not part of the same compilation, such as C's; but who waits for another thread in a loop has to
`atomic_load`.
"""

from __future__ import annotations

import ast
import contextlib
import ctypes
import gc
import linecache
import os
import sys
import threading
from ctypes import Array, Structure, addressof, c_int64, c_void_p, py_object, pythonapi, sizeof

import llvmlite.binding as llvm

# ---- what native modules are written with --------------------------------------------------------------------------

functions = []
"""Every function that was marked, for `compile_functions`."""


def native(function):
    """Mark a function to be compiled, without care for its speed."""
    function.level = "native"
    functions.append(function)
    return function


def hot(function):
    """Mark a function to be compiled with its values kept in registers, which takes three times as long."""
    function.level = "hot"
    functions.append(function)
    return function


def inline(function):
    """Mark a function to be made part of those that call it.  It has no code, so no address, of its own."""
    function.level = "inline"
    functions.append(function)
    return function


def cold(failure):
    """Mark a function to be compiled when it, or another cold function of its module, is first called.

    It must be called with the GIL held, and never by the garbage collector's traversal or where Python may not run:
    the first call runs the compiler.  If that fails the function returns `failure` with a Python exception set.
    """
    if not isinstance(failure, int):
        msg = "use @cold(0) or @cold(-1), with what the function returns if it cannot be compiled"
        raise TypeError(msg)

    def mark(function):
        function.level, function.failure = "cold", failure
        functions.append(function)
        return function

    return mark


class extern:
    """A C function of the process, for compiled functions to call.

    One that is `optional` and does not exist is false as a constant, and its address is 0.
    """

    def __init__(self, name, restype, *argtypes, optional=False):
        function = getattr(pythonapi, name, None) if optional else getattr(pythonapi, name)
        self.address = ctypes.cast(function, c_void_p).value if function else 0
        self.restype, self.argtypes = restype, argtypes

    def __bool__(self):
        return self.address != 0


def stack(kind):
    """Room for a type in the frame of a compiled function; in a loop it is the same room each time."""
    raise TypeError("only a compiled function has a C stack")


def atomic_add(place, n):
    """Add to a field or an item; return what it was."""
    raise TypeError("only compiled functions have atomic operations")


def compare_exchange(place, old, new):
    """Set a field or an item to `new` if it is `old`; return whether it was."""
    raise TypeError("only compiled functions have atomic operations")


def atomic_load(place):
    """Return a field or an item."""
    raise TypeError("only compiled functions have atomic operations")


def atomic_store(place, n):
    """Set a field or an item."""
    raise TypeError("only compiled functions have atomic operations")


def immortal(value):
    """Keep an object, and so the address of what it holds, for as long as the process lives."""
    pythonapi.Py_IncRef(py_object(value))
    return value


# ---- types ---------------------------------------------------------------------------------------------------------


class Scalars(dict):
    """How LLVM names a ctypes type, the instruction that widens it to a word, and how C wants it passed."""

    def __missing__(self, kind):
        code = "P" if embedded[kind] else getattr(kind, "_type_", "P")
        if not isinstance(code, str) or code == "P" or (sizeof(kind) == 8 and code not in "dg"):
            known = "i64", None, ""
        elif code in "bhilqBHILQc":
            known = (f"i{8 * sizeof(kind)}", *(("sext", "signext ") if code in "bhilq" else ("zext", "zeroext ")))
        else:
            msg = f"{kind.__name__} is not an integer or an address"
            raise TypeError(msg)
        self[kind] = known
        return known


class Embedded(dict):
    """Whether a field of a type stands for its address, as an array does in C."""

    def __missing__(self, kind):
        known = self[kind] = issubclass(kind, (Structure, Array))
        return known


class Fields(dict):
    """The offsets and types of a structure's fields, by name."""

    def __missing__(self, kind):
        known = self[kind] = {
            key: (getattr(kind, key).offset, None if bits else type_)
            for base in reversed(kind.__mro__)
            for key, type_, *bits in base.__dict__.get("_fields_", ())
        }
        return known


# Tables that fill themselves: they are asked for each instruction.
scalars, embedded, fields = Scalars({None: ("void", None, "")}), Embedded(), Fields()


# ---- sources -------------------------------------------------------------------------------------------------------


class Sources:
    """What functions are written as.  Only the text of those that are asked for is parsed: that takes its time."""

    def __init__(self):
        self.texts, self.bodies, self.signatures = {}, {}, {}

    def body(self, function):
        """The statements of a function."""
        known = self.bodies.get(function)
        if known is None:
            known = self.bodies[function] = self.parse(function)
        return known

    def parse(self, function):
        name, code = function.__module__, function.__code__
        lines = self.texts.get(name)
        if lines is None:
            module = sys.modules[name]
            if hasattr(module.__loader__, "get_source"):
                text = module.__loader__.get_source(name)
            else:  # as that of pytest, which rewrites the packages of its plugins
                text = "".join(linecache.getlines(module.__file__))
            if not text:
                msg = f"the source of {name}, which is compiled by LLVM, is missing"
                raise ImportError(msg)
            lines = self.texts[name] = text.splitlines(keepends=True)
        start, stop = code.co_firstlineno - 1, max(line for _, _, line in code.co_lines() if line)
        while stop < len(lines) and lines[stop][0] in " \t\r\n)]}":  # the last expression may go on
            stop += 1
        return ast.parse("".join(lines[start:stop])).body[0].body

    def signature(self, function):
        """The types of a function's result and, by name, of its parameters."""
        known = self.signatures.get(function)
        if known is None:
            names, kinds = function.__globals__, {}
            for name, kind in function.__annotations__.items():
                if isinstance(kind, str):  # a postponed annotation
                    kind = names[kind] if kind in names else eval(kind, names)
                kinds[name] = kind
            known = self.signatures[function] = kinds.pop("return", None), kinds
        return known


# ---- translation ---------------------------------------------------------------------------------------------------

_BINARY = {
    ast.Add: ("add", int.__add__),
    ast.Sub: ("sub", int.__sub__),
    ast.Mult: ("mul", int.__mul__),
    ast.BitAnd: ("and", int.__and__),
    ast.BitOr: ("or", int.__or__),
    ast.BitXor: ("xor", int.__xor__),
    ast.LShift: ("shl", lambda a, b: a << (b & 63)),
    ast.RShift: ("ashr", lambda a, b: a >> (b & 63)),
    ast.FloorDiv: ("sdiv", lambda a, b: a // b if b else 0),
    ast.Mod: ("srem", lambda a, b: a % b if b else 0),
}
_COMPARE = {
    ast.Eq: ("eq", int.__eq__),
    ast.NotEq: ("ne", int.__ne__),
    ast.Lt: ("slt", int.__lt__),
    ast.LtE: ("sle", int.__le__),
    ast.Gt: ("sgt", int.__gt__),
    ast.GtE: ("sge", int.__ge__),
}


def literal(n):
    """A number as a word: in LLVM's language a word is either `%name` or such a number."""
    if -(1 << 63) <= n < 1 << 63:
        return str(int(n))
    return str((int(n) + (1 << 63)) % (1 << 64) - (1 << 63))


class Label:
    """The start of a block of instructions: which blocks jump there, and what the locals are when they do."""

    __slots__ = "edges", "name"

    def __init__(self, name):
        self.name, self.edges = name, []


class Translation:
    """One function in LLVM's language: its `text`.

    Locals are not memory but names of values (LLVM's static single assignment): even the quickest code generator then
    keeps them in registers.  Where blocks meet, a local that differs is chosen by where one came from, a phi.
    """

    def __init__(self, function, module):
        self.module, self.sources = module, module.sources
        self.entry, self.lines, self.count, self.labels = [], [], 0, 0
        self.known = {}  # what was computed in this block, and is so again
        self.block = "entry"  # None where control does not come
        self.within = [function]  # and the functions that are being made part of it
        self.names, self.values, self.kinds = function.__globals__, {}, {}
        self.loops, self.exit = [], None
        self.restype, parameters = self.sources.signature(function)
        for name, kind in parameters.items():
            self.set_local(name, self.widen(f"%{name}", kind), kind)
        self.run(self.sources.body(function))
        if self.block:
            if self.restype is not None:
                msg = f"{function.__module__}.{function.__qualname__} can end without a result"
                raise SyntaxError(msg)
            self.lines.append("ret void")
        more = ["i64 %.unused"] if module.cold else []
        head = define(function.__name__, self.restype, parameters, more, module.attributes)
        self.text = "\n".join([head, *self.entry, *self.lines, "}"])

    # -- instructions and blocks

    def result(self, operation):
        name = f"%{self.count}"
        self.count += 1
        self.lines.append(f"{name} = {operation}")
        return name

    def pure(self, operation):
        """The result of an operation that depends on nothing but its operands."""
        name = self.known.get(operation)
        if name is None:
            name = self.known[operation] = self.result(operation)
        return name

    def label(self):
        self.labels += 1
        return Label(f"b{self.labels}")

    def jump(self, label):
        if self.block:
            self.lines.append(f"br label %{label.name}")
            label.edges.append((self.block, self.values))
            self.block = None

    def fork(self, truth, yes, no):
        if truth == "true" or truth == "false":
            self.jump(yes if truth == "true" else no)
        else:
            self.lines.append(f"br i1 {truth}, label %{yes.name}, label %{no.name}")
            yes.edges.append((self.block, self.values))
            no.edges.append((self.block, self.values))
            self.block = None

    def start(self, label):
        """Begin the block of a label; tell whether control comes there at all."""
        edges = label.edges
        if not edges:
            return False
        self.block, values = edges[0]
        if len(edges) == 1 and self.lines[-1] == f"br label %{label.name}":
            self.lines.pop()  # it just goes on
        else:
            self.block, self.known = label.name, {}
            self.lines.append(f"{label.name}:")
            others = [other for _, other in edges if other is not values]
            if others:
                values, first = {}, values
                for name, word in first.items():
                    for other in others:
                        if other.get(name) != word:
                            break
                    else:
                        values[name] = word
                        continue
                    words = [other.get(name) for _, other in edges]
                    if None not in words:  # else it has no value from here on
                        values[name] = self.phi(edges, words)
        self.values = values
        return True

    def phi(self, edges, words):
        if all([word == words[0] for word in words]):
            return words[0]
        return self.result("phi i64 " + ", ".join([f"[{w}, %{block}]" for w, (block, _) in zip(words, edges)]))

    def refusal(self, node, why=""):
        function = self.within[-1]
        line = function.__code__.co_firstlineno + node.lineno - 1 if hasattr(node, "lineno") else "?"
        return SyntaxError(
            f"{function.__module__}.{function.__qualname__}, line {line}: {ast.unparse(node)!r} cannot be compiled{why}"
        )

    # -- words and memory

    def widen(self, value, kind):
        type_, extend, _ = scalars[kind]
        if extend is None:
            return value
        word = self.pure(f"{extend} {type_} {value} to i64")
        self.known[f"trunc i64 {word} to {type_}"] = value
        return word

    def narrow(self, word, kind):
        type_, extend, _ = scalars[kind]
        return word if extend is None else self.pure(f"trunc i64 {word} to {type_}")

    def add(self, base, offset):
        if base[0] != "%":
            return literal(int(base) + offset)
        return self.pure(f"add i64 {base}, {offset}") if offset else base

    def pointer(self, base, offset=0):
        if base[0] != "%":
            return f"inttoptr (i64 {literal(int(base) + offset)} to ptr)"
        pointer = self.pure(f"inttoptr i64 {base} to ptr")
        return self.pure(f"getelementptr i8, ptr {pointer}, i64 {offset}") if offset else pointer

    def load(self, base, offset, kind):
        if embedded[kind]:
            return self.add(base, offset), kind
        type_, extend, _ = scalars[kind]
        value = self.result(f"load {type_}, ptr {self.pointer(base, offset)}")
        return self.widen(value, kind) if extend else value, kind

    def store(self, base, offset, kind, word):
        if embedded[kind]:
            msg = "structures and arrays are not assigned"
            raise TypeError(msg)
        self.lines.append(f"store {scalars[kind][0]} {self.narrow(word, kind)}, ptr {self.pointer(base, offset)}")

    def set_local(self, name, word, kind):
        self.kinds.setdefault(name, kind)
        self.values = {**self.values, name: word}  # a new one, as labels may have the old

    # -- statements

    def run(self, statements):
        for statement in statements:
            if not self.block:
                return
            method = _DO.get(type(statement))
            if method is None:
                raise self.refusal(statement)
            try:
                method(self, statement)
            except (SyntaxError, MemoryError, RecursionError):
                raise
            except Exception as error:
                raise self.refusal(statement, f": {error!r}") from error

    def do_Expr(self, node):
        if type(node.value) is not ast.Constant:  # a docstring
            self.value(node.value)

    def do_Pass(self, node):
        pass

    def do_Return(self, node):
        if (node.value is None) != (self.restype is None):
            raise self.refusal(node, ": the function has no result" if node.value else ": the function has a result")
        word = None if node.value is None else self.narrow(self.word(node.value), self.restype)
        if self.exit is None:
            self.lines.append("ret void" if word is None else f"ret {scalars[self.restype][0]} {word}")
            self.block = None
        else:
            # Who goes on after the call needs nothing but the result.
            self.values = {} if word is None else {"return": self.widen(word, self.restype)}
            self.jump(self.exit)

    def do_Assign(self, node):
        (target, *more), value = node.targets, node.value
        if type(target) is ast.Tuple and not more:
            values = [self.value(element) for element in value.elts]
            for element, (word, kind) in zip(target.elts, values, strict=True):
                self.assign(element, word, kind)
        else:
            word, kind = self.value(value)
            for target in node.targets:
                self.assign(target, word, kind)

    def do_AugAssign(self, node):
        target = node.target
        if type(target) is ast.Name:
            self.set_local(target.id, *self.binary(node.op, *self.value(target), self.word(node.value)))
        else:
            place = self.place(target)
            self.store(*place, self.binary(node.op, *self.load(*place), self.word(node.value))[0])

    def assign(self, target, word, kind):
        if type(target) is ast.Name:
            self.set_local(target.id, word, kind)
        else:
            self.store(*self.place(target), word)

    def do_If(self, node):
        then, end = self.label(), self.label()
        other = self.label() if node.orelse else end
        self.branch(node.test, then, other)
        if self.start(then):
            self.run(node.body)
            self.jump(end)
        if node.orelse and self.start(other):
            self.run(node.orelse)
            self.jump(end)
        self.start(end)

    def do_While(self, node):
        if node.orelse:
            raise self.refusal(node, ": no else after a loop")
        test, body, end = self.label(), self.label(), self.label()
        phis = self.enter_loop(test, assigned(node.body, {}))
        self.branch(node.test, body, end)
        if self.start(body):
            self.turn(test, end, node.body)
            self.jump(test)
        self.close_loop(test, phis)
        self.start(end)

    def do_For(self, node):
        """As in Python, assigning to the loop's variable does not change how often the loop is run."""
        if node.orelse or type(node.iter) is not ast.Call or self.callee(node.iter) is not range:
            raise self.refusal(node, ": only loops over a range, without an else")
        words, hidden = [self.word(arg) for arg in node.iter.args], f"{node.target.id}.{self.labels}"
        start, stop, step = ["0", *words, "1"] if len(words) == 1 else [*words, "1"][:3]
        if step[0] == "%" or step == "0":
            raise self.refusal(node, ": the step must be a constant, and not 0")
        test, body, again, end = self.label(), self.label(), self.label(), self.label()
        self.values = {**self.values, hidden: start}
        phis = self.enter_loop(test, assigned(node.body, {node.target.id: None, hidden: None}))
        index = self.values[hidden]
        self.fork(self.result(f"icmp {'sgt' if step[0] == '-' else 'slt'} i64 {index}, {stop}"), body, end)
        self.start(body)
        self.set_local(node.target.id, index, c_int64)
        self.turn(again, end, node.body)
        self.jump(again)
        if self.start(again):
            self.values = {**self.values, hidden: self.pure(f"add i64 {index}, {step}")}
            self.jump(test)
        self.close_loop(test, phis)
        self.start(end)

    def turn(self, again, end, statements):
        self.loops.append((again, end))
        self.run(statements)
        self.loops.pop()

    def enter_loop(self, label, names):
        """Begin the block that every turn of a loop comes by, with a phi for every local that may have changed."""
        before, phis = self.values, []
        self.jump(label)
        self.lines.append(f"{label.name}:")
        self.block, self.known, self.values = label.name, {}, dict(before)
        for name in names:
            if name in before:
                phis.append((name, len(self.lines)))
                self.values[name] = self.result("phi i64 ")
        return phis

    def close_loop(self, label, phis):
        for name, line in phis:
            self.lines[line] += ", ".join([f"[{values[name]}, %{block}]" for block, values in label.edges])

    def do_Break(self, node):
        self.jump(self.loops[-1][1])

    def do_Continue(self, node):
        self.jump(self.loops[-1][0])

    # -- conditions

    def branch(self, test, yes, no):
        kind = type(test)
        if kind is ast.BoolOp:
            conjunction = type(test.op) is ast.And
            for operand in test.values[:-1]:
                more = self.label()
                self.branch(operand, *((more, no) if conjunction else (yes, more)))
                if not self.start(more):
                    return
            self.branch(test.values[-1], yes, no)
        elif kind is ast.UnaryOp and type(test.op) is ast.Not:
            self.branch(test.operand, no, yes)
        else:
            self.fork(self.truth(test), yes, no)

    def truth(self, node):
        """A condition as LLVM's truth value."""
        if type(node) is ast.Compare:
            (operator,), (right,) = node.ops, node.comparators
            operation, fold = _COMPARE[type(operator)]
            left, right = self.word(node.left), self.word(right)
        else:
            (operation, fold), left, right = _COMPARE[ast.NotEq], self.word(node), "0"
        if left[0] != "%" and right[0] != "%":
            return "true" if fold(int(left), int(right)) else "false"
        return self.pure(f"icmp {operation} i64 {left}, {right}")

    # -- expressions

    def value(self, node):
        """The word that holds an expression, and its type."""
        method = _VALUE.get(type(node))
        if method is None:
            raise self.refusal(node)
        return method(self, node)

    def word(self, node):
        """The word that holds an expression."""
        return self.value(node)[0]

    def constant(self, value, node):
        if isinstance(value, bytes):
            value = addressof(immortal(ctypes.create_string_buffer(value)))
        elif isinstance(value, extern):
            value = value.address
        elif not isinstance(value, int):
            raise self.refusal(node, ": it is no constant that can be")
        return literal(value), c_int64

    def value_Constant(self, node):
        return self.constant(node.value, node)

    def value_Name(self, node):
        name = node.id
        if name in self.values:
            return self.values[name], self.kinds[name]
        if name in self.kinds or name not in self.names:
            raise self.refusal(node, ": it may have no value here")
        value = self.names[name]
        if hasattr(value, "__code__"):
            return self.module.address(value, self), c_void_p
        return self.constant(value, node)

    def place(self, node):
        """Where a field or an item is: an address, how many bytes on from there, and its type."""
        if type(node) is ast.Attribute:
            base, offset, kind = self.base(node.value)
            more, type_ = fields[kind if embedded[kind] else kind._type_][node.attr]  # . or ->
            if type_ is None:
                raise self.refusal(node, ": it is a bit field")
            return base, offset + more, type_
        if type(node) is not ast.Subscript:
            raise self.refusal(node, ": it is no place in memory")
        base, offset, kind = self.base(node.value)
        kind, index = kind._type_, self.word(node.slice)
        size = sizeof(kind)
        if index[0] != "%":
            return base, offset + int(index) * size, kind
        if size > 1:
            index = self.pure(f"mul i64 {index}, {size}")
        return self.pure(f"add i64 {base}, {index}"), offset, kind

    def base(self, node):
        """The word of an expression as an address and how many bytes on from there, and its type."""
        if type(node) is ast.Attribute or type(node) is ast.Subscript:
            base, offset, kind = self.place(node)
            if embedded[kind]:
                return base, offset, kind
            word, kind = self.load(base, offset, kind)
        else:
            word, kind = self.value(node)
        return word, 0, kind

    def value_place(self, node):
        return self.load(*self.place(node))

    def value_BinOp(self, node):
        return self.binary(node.op, *self.value(node.left), self.word(node.right))

    def binary(self, operator, left, kind, right):
        operation, fold = _BINARY[type(operator)]
        if left[0] != "%" and right[0] != "%":
            return literal(fold(int(left), int(right))), kind
        if operation == "sdiv" or operation == "srem":
            return self.divide(operation, left, right), kind
        if operation == "shl" or operation == "ashr":
            right = self.pure(f"and i64 {right}, 63") if right[0] == "%" else str(int(right) & 63)
        return self.pure(f"{operation} i64 {left}, {right}"), kind

    def divide(self, operation, left, right):
        """// or %, which round down.  LLVM's round to zero, and know no result for a divisor of 0, nor of -1 for one
        number; what is divided by these is divided by 1, and negated."""
        if right[0] != "%" and int(right) > 0 and int(right) & int(right) - 1 == 0:
            return self.pure(
                f"ashr i64 {left}, {int(right).bit_length() - 1}"
                if operation == "sdiv"
                else f"and i64 {left}, {int(right) - 1}"
            )
        special = self.pure(f"icmp ult i64 {self.pure(f'add i64 {right}, 1')}, 2")
        divisor = self.pure(f"select i1 {special}, i64 1, i64 {right}")
        remainder = self.pure(f"srem i64 {left}, {divisor}")
        signs = self.pure(f"icmp slt i64 {self.pure(f'xor i64 {remainder}, {divisor}')}, 0")
        rest = self.pure(f"icmp ne i64 {remainder}, 0")
        down = self.pure(f"and i1 {signs}, {rest}")
        if operation == "srem":
            return self.pure(f"add i64 {remainder}, {self.pure(f'select i1 {down}, i64 {divisor}, i64 0')}")
        quotient = self.pure(f"add i64 {self.pure(f'sdiv i64 {left}, {divisor}')}, "
                               f"{self.pure(f'sext i1 {down} to i64')}")  # fmt: skip
        return self.pure(f"select i1 {special}, i64 {self.pure(f'sub i64 0, {left}')}, i64 {quotient}")

    def value_UnaryOp(self, node):
        operator = type(node.op)
        if operator is ast.Not:
            return self.value_IfExp(ast.IfExp(node.operand, _NO, _YES))
        word, kind = self.value(node.operand)
        if operator is ast.USub:
            return literal(-int(word)) if word[0] != "%" else self.pure(f"sub i64 0, {word}"), kind
        if operator is ast.Invert:
            return literal(~int(word)) if word[0] != "%" else self.pure(f"xor i64 {word}, -1"), kind
        return word, kind

    def value_Compare(self, node):
        return self.value_IfExp(ast.IfExp(node, _YES, _NO))

    def value_IfExp(self, node):
        arms, results = (node.body, node.orelse), []
        if all([type(arm) in _SIMPLE for arm in arms]) and type(node.test) not in _BRANCHING:
            truth = self.truth(node.test)
            if truth == "true" or truth == "false":
                return self.value(arms[truth == "false"])
            (yes, kind), (no, other) = self.value(arms[0]), self.value(arms[1])
            return self.pure(f"select i1 {truth}, i64 {yes}, i64 {no}"), other if kind is c_int64 else kind
        yes, no, end = self.label(), self.label(), self.label()
        self.branch(node.test, yes, no)
        for label, arm in (yes, arms[0]), (no, arms[1]):
            if self.start(label):
                results.append(self.value(arm))
                self.jump(end)
        return self.choice(end, results)

    def value_BoolOp(self, node):
        end, results, disjunction = self.label(), [], type(node.op) is ast.Or
        for operand in node.values[:-1]:
            results.append(self.value(operand))
            word, more = results[-1][0], self.label()
            if word[0] != "%":
                truth = "true" if int(word) else "false"
            else:
                truth = self.pure(f"icmp ne i64 {word}, 0")
            known = len(end.edges)
            self.fork(truth, *((end, more) if disjunction else (more, end)))
            if len(end.edges) == known:  # it is known not to end here
                results.pop()
            if not self.start(more):
                break
        else:
            results.append(self.value(node.values[-1]))
            self.jump(end)
        return self.choice(end, results)

    def choice(self, end, results):
        """The one of some results that belongs to the way control came."""
        self.start(end)
        word = self.phi(end.edges, [word for word, _ in results])
        # A bare number, such as a null pointer, takes the type of its alternatives.
        return word, next((kind for _, kind in results if kind is not c_int64), c_int64)

    # -- calls

    def callee(self, node):
        """The constant that is called, or None: a word is."""
        name = node.func.id if type(node.func) is ast.Name else None
        if node.keywords:
            raise self.refusal(node, ": no keywords")
        return None if name in self.kinds else self.names.get(name, range if name == "range" else None)

    def value_Call(self, node):
        callee = self.callee(node)
        if callee is None:
            word, kind = self.value(node.func)
            return self.call(self.pointer(word), kind._restype_, kind._argtypes_, node)
        if isinstance(callee, extern):
            return self.call(f"inttoptr (i64 {callee.address} to ptr)", callee.restype, callee.argtypes, node)
        if isinstance(callee, type):
            (argument,) = node.args
            word = self.word(argument)
            return self.widen(self.narrow(word, callee), callee), callee
        if callee is stack:
            return self.room(*node.args)
        if callee in _ATOMIC:
            return self.atomic(_ATOMIC[callee], *node.args)
        restype, parameters = self.sources.signature(callee)
        if getattr(callee, "level", "native") == "inline":
            return self.inline(callee, node, restype, parameters)
        target, more = self.module.target(callee, self)
        return self.call(target, restype, parameters.values(), node, more)

    def room(self, node):
        kind = eval(compile(ast.Expression(node), "stack", "eval"), self.names)
        name = f"%.room{len(self.entry)}"
        self.entry.append(f"{name} = alloca [{sizeof(kind)} x i8], align 16")
        return self.pure(f"ptrtoint ptr {name} to i64"), kind

    def atomic(self, operation, place, *nodes):
        base, offset, kind = self.place(place)
        if embedded[kind]:
            raise self.refusal(place, ": it is no number")
        words = [self.narrow(self.word(node), kind) for node in nodes]
        return operation(self, kind, scalars[kind][0], sizeof(kind), self.pointer(base, offset), *words), kind

    def call(self, target, restype, kinds, node, more=()):
        words = []
        for arg, kind in zip(node.args, kinds, strict=True):
            type_, extend, attribute = scalars[kind]
            word = self.word(arg)
            words.append(f"{type_} {attribute}{self.narrow(word, kind)}" if extend else f"i64 {word}")
        type_, _, attribute = scalars[restype]
        call = f"call {attribute}{type_} {target}({', '.join([*words, *more])})"
        if restype is None:
            self.lines.append(call)
            return "0", c_int64
        return self.widen(self.result(call), restype), restype

    def inline(self, callee, node, restype, parameters):
        """Translate the body of a function in place of a call."""
        if callee in self.within:
            raise self.refusal(node, ": it would be part of itself")
        values = {}
        for arg, (name, kind) in zip(node.args, parameters.items(), strict=True):
            values[name] = self.cast(self.word(arg), kind)
        caller = self.names, self.values, self.kinds, self.loops, self.restype, self.exit
        end = self.label()
        self.names, self.values, self.kinds, self.loops = callee.__globals__, values, dict(parameters), []
        self.restype, self.exit = restype, end
        self.within.append(callee)
        self.run(self.sources.body(callee))
        self.within.pop()
        if self.block:
            if restype is not None:
                raise self.refusal(node, ": it can end without a result")
            self.values = {}
            self.jump(end)
        if not self.start(end):
            raise self.refusal(node, ": it does not return")
        word = self.values.get("return", "0")
        self.names, self.values, self.kinds, self.loops, self.restype, self.exit = caller
        return word, restype or c_int64

    def cast(self, word, kind):
        """A word as C would pass it."""
        type_, extend, _ = scalars[kind]
        return word if extend is None else self.widen(self.narrow(word, kind), kind)


_SIMPLE = ast.Constant, ast.Name  # what may be computed without being needed
_BRANCHING = ast.BoolOp, ast.UnaryOp
_YES, _NO = ast.Constant(1), ast.Constant(0)
_DO = {getattr(ast, name[3:]): method for name, method in vars(Translation).items() if name.startswith("do_")}
_VALUE = {
    getattr(ast, name[6:]): method
    for name, method in vars(Translation).items()
    if name.startswith("value_") and hasattr(ast, name[6:])
}
_VALUE[ast.Attribute] = _VALUE[ast.Subscript] = Translation.value_place


def assigned(statements, names):
    """Add to some names those of the locals that statements assign to."""
    for node in statements:
        kind = type(node)
        if kind is ast.Assign or kind is ast.AugAssign or kind is ast.For:
            for target in node.targets if kind is ast.Assign else (node.target,):
                for element in target.elts if type(target) is ast.Tuple else (target,):
                    if type(element) is ast.Name:
                        names[element.id] = None  # a set that keeps its order: the same text each time
        if kind is ast.If or kind is ast.While or kind is ast.For:
            assigned(node.body, names)
            assigned(node.orelse, names)
    return names


def _atomic_add(t, kind, type_, size, pointer, n):
    return t.widen(t.result(f"atomicrmw add ptr {pointer}, {type_} {n} seq_cst"), kind)


def _compare_exchange(t, kind, type_, size, pointer, old, new):
    pair = t.result(f"cmpxchg ptr {pointer}, {type_} {old}, {type_} {new} seq_cst seq_cst")
    done = t.result(f"extractvalue {{ {type_}, i1 }} {pair}, 1")
    return t.result(f"zext i1 {done} to i64")


def _atomic_load(t, kind, type_, size, pointer):
    return t.widen(t.result(f"load atomic {type_}, ptr {pointer} seq_cst, align {size}"), kind)


def _atomic_store(t, kind, type_, size, pointer, n):
    t.lines.append(f"store atomic {type_} {n}, ptr {pointer} release, align {size}")
    return "0"


_ATOMIC = {
    atomic_add: _atomic_add,
    compare_exchange: _compare_exchange,
    atomic_load: _atomic_load,
    atomic_store: _atomic_store,
}


# ---- modules of machine code ---------------------------------------------------------------------------------------

_addresses = {}
"""Where the code of each function is.  A function has one address, whoever asks: addresses are compared."""

_slots = {}
"""Words with the address of a hot function, or of a cold one's real code, for code that is compiled before that is."""


class Module:
    """Functions that are translated and compiled together."""

    def __init__(self, sources, members, stubs=(), cold=False):
        self.sources, self.members, self.cold, self.attributes = sources, members, cold, ""
        self.symbols = {*members, *stubs}

    def address(self, function, translation):
        """The address of a function, as a word."""
        if function in _addresses:
            return str(_addresses[function])
        if function in self.symbols:
            return translation.result(f"ptrtoint ptr @{function.__name__} to i64")
        if function in _slots:
            return translation.result(f"load i64, ptr inttoptr (i64 {addressof(_slots[function])} to ptr)")
        msg = f"{function.__module__}.{function.__qualname__} has no code of its own"
        raise TypeError(msg)

    def target(self, function, translation):
        """What to call for a function, and with what arguments beyond its own."""
        if function in self.symbols:
            return f"@{function.__name__}", ("i64 0",) if self.cold else ()
        return translation.pointer(self.address(function, translation)), ()

    def compile(self, optimisation, names, more=()):
        """Compile; return the addresses of names.

        Without optimisation every value that is needed in another block than its own goes by the stack.  With it LLVM
        would take six times as long, two thirds of it for choosing instructions well, which is worth little here:
        `optnone` has that done in the quick way, and leaves the good allocation of registers.
        """
        self.attributes = "noinline optnone " if optimisation else ""
        text = "\n".join([*[Translation(function, self).text for function in self.members], *more])
        machine = llvm.Target.from_default_triple().create_target_machine(opt=optimisation, jit=True)
        engine = llvm.create_mcjit_compiler(llvm.parse_assembly(text), machine)
        engine.finalize_object()
        addresses = [engine.get_function_address(name) for name in names]
        engine.detach()  # so that it is never disposed of
        return addresses


def define(name, restype, parameters, more=(), attributes=""):
    """The head of a function's definition."""
    type_, _, attribute = scalars[restype]
    typed = [f"{scalars[kind][0]} {scalars[kind][2]}%{name}" for name, kind in parameters.items()]
    return f"define {attribute}{type_} @{name}({', '.join([*typed, *more])}) {attributes}{{\nentry:"


def compile_functions(functions):
    """Compile functions, which may call each other; return the addresses of their code by name.

    The code is never unloaded: whoever was given an address may call it until the process ends.
    """
    levels, names = {"native": [], "hot": [], "inline": [], "cold": []}, {}
    for function in functions:
        other = names.setdefault(function.__name__, function)
        if other is not function:
            msg = (
                f"{other.__module__} and {function.__module__} both have a native function {function.__name__!r}; "
                "give one of them another name"
            )
            raise ValueError(msg)
        levels[getattr(function, "level", "native")].append(function)
    with without_collections():
        return compile_levels(functions, levels["native"], levels["hot"], levels["cold"])


def compile_levels(functions, quick, hot, cold):
    if cold and cold_code not in _addresses:
        quick = [*quick, cold_code]
    for function in [*hot, *cold]:
        _slots[function] = immortal(c_int64())
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    sources, loaders = Sources(), {}
    stubs = [stub(function, sources, loaders) for function in cold]
    if quick or cold:
        names = [*[function.__name__ for function in [*quick, *cold]], *[loader.name for loader in loaders.values()]]
        found = Module(sources, quick, cold).compile(0, names, [*stubs, *[loader.text for loader in loaders.values()]])
        found = dict(zip(names, found, strict=True))
        for function in [*quick, *cold]:
            _addresses[function] = found[function.__name__]
        for loader in loaders.values():
            for function in loader.functions:
                _slots[function].value = found[loader.name]
    if hot:
        found = Module(sources, hot).compile(1, [function.__name__ for function in hot])
        for function, address in zip(hot, found, strict=True):
            _addresses[function] = _slots[function].value = address
    return {function.__name__: _addresses[function] for function in functions if function in _addresses}


@contextlib.contextmanager
def without_collections():
    """Keep the garbage collector away from syntax trees: it would look at all of them, time and again, for nothing."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


# ---- cold functions ------------------------------------------------------------------------------------------------
#
# The address of a cold function is that of a stub, which calls what is in the function's slot, with one more argument:
# the function's number.  At first that is a loader, one for each signature, which has the code compiled and put there.

_cold = []
"""The cold functions, by their numbers."""

_compiling = threading.RLock()
"""Held while cold functions are compiled.  A fork waits for that: llvmlite's lock would stay locked in the child."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(
        before=_compiling.acquire, after_in_parent=_compiling.release, after_in_child=_compiling.release
    )


def stub(function, sources, loaders):
    """The text of a cold function's stub.  Its signature's loader is added to the loaders, if it is the first."""
    restype, parameters = sources.signature(function)
    if restype is None:
        msg = f"{function.__module__}.{function.__qualname__} has no result to tell a failure by, so it cannot be cold"
        raise TypeError(msg)
    key = restype, tuple(parameters.values()), function.failure
    if key not in loaders:
        loaders[key] = Loader(f".load{len(_cold)}", restype, parameters, function.failure)
    loaders[key].functions.append(function)
    number = len(_cold)
    _cold.append(function)
    return "\n".join(
        [
            define(function.__name__, restype, parameters),
            f"%0 = load ptr, ptr inttoptr (i64 {addressof(_slots[function])} to ptr)",
            f"%1 = {hand_on('%0', restype, parameters, number)}",
            f"ret {scalars[restype][0]} %1",
            "}",
        ]
    )


class Loader:
    """What is in the slots of functions of one signature until they are compiled."""

    def __init__(self, name, restype, parameters, failure):
        self.name, self.functions = name, []
        type_ = scalars[restype][0]
        load = f"inttoptr (i64 {_addresses[cold_code]} to ptr)" if cold_code in _addresses else "@cold_code"
        self.text = "\n".join(
            [
                define(name, restype, parameters, ["i64 %.number"]),
                f"%0 = call i64 {load}(i64 %.number)",
                "%1 = icmp eq i64 %0, 0",
                "br i1 %1, label %failed, label %loaded",
                "failed:",
                f"ret {type_} {failure}",
                "loaded:",
                "%2 = inttoptr i64 %0 to ptr",
                f"%3 = {hand_on('%2', restype, parameters, '%.number')}",
                f"ret {type_} %3",
                "}",
            ]
        )


def hand_on(target, restype, parameters, number):
    """The call with which a stub or a loader hands on its arguments, and the function's number."""
    type_, _, attribute = scalars[restype]
    typed = [f"{scalars[kind][0]} {scalars[kind][2]}%{name}" for name, kind in parameters.items()]
    return f"call {attribute}{type_} {target}({', '.join([*typed, f'i64 {number}'])})"


def load_cold(number):
    """Compile the cold functions of a module, if that is yet to be done; return the address of one's code."""
    function = _cold[number]
    group = [other for other in _cold if other.__module__ == function.__module__]
    with _compiling, without_collections():
        addresses = Module(Sources(), group, cold=True).compile(0, [other.__name__ for other in group])
    # Two threads may come here for one function.  Then there are two copies of the code, either of which will do.
    for other, address in zip(group, addresses, strict=True):
        _slots[other].value = address
    return _slots[function].value


_LOAD = id(immortal(load_cold))

PyErr_Fetch = extern("PyErr_Fetch", None, c_void_p, c_void_p, c_void_p)
PyErr_Restore = extern("PyErr_Restore", None, c_void_p, c_void_p, c_void_p)
PyLong_FromLongLong = extern("PyLong_FromLongLong", c_void_p, c_int64)
PyLong_AsVoidPtr = extern("PyLong_AsVoidPtr", c_void_p, c_void_p)
PyObject_Vectorcall = extern("PyObject_Vectorcall", c_void_p, c_void_p, c_void_p, c_int64, c_void_p)
Py_DecRef = extern("Py_DecRef", None, c_void_p)


def cold_code(number: c_int64) -> c_void_p:
    """The address of a cold function's code, or 0 with an exception set.  One that was set before stays set.

    Python is called as C calls it, not by a callback of ctypes, which has no way to fail: near the limit of recursion,
    and at an interrupt, it would return anything.
    """
    saved, args, code = stack(c_void_p * 3), stack(c_void_p * 1), 0
    PyErr_Fetch(saved, saved + 8, saved + 16)
    args[0] = PyLong_FromLongLong(number)
    found = PyObject_Vectorcall(_LOAD, args, 1, 0) if args[0] else 0
    Py_DecRef(args[0])
    if found:
        code = PyLong_AsVoidPtr(found)
        Py_DecRef(found)
    if code:
        PyErr_Restore(saved[0], saved[1], saved[2])
    else:
        for i in range(3):
            Py_DecRef(saved[i])
    return code
