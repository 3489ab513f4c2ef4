"""From the LLVM IR that numba-cuda writes for libNVVM to IR for this machine.

The text stays nearly as it is: LLVM reads the typed pointers of old, and address spaces mean nothing on x86-64.  What
changes is in `host_text`.  Every intrinsic of NVVM and every piece of inline PTX becomes a call of a function, whose
body is written here, or calls one of the driver's (``hc_...``); what is not known here fails when it is called.
"""

from __future__ import annotations

import re

# ------------------------------------------------------------------------------------------------ what a thread can ask
# Offsets in `struct Place` of driver/kernels.c.
PLACE = {"tid": 0, "ntid": 12, "ctaid": 24, "nctaid": 36}
DYNAMIC_SHARED, ARENA, ARENA_SIZE = 48, 56, 64


def _place(offset: int, type: str = "i32") -> str:
    return f"load {type}, ptr getelementptr (i8, ptr @hostcuda_place, i64 {offset})"


# ----------------------------------------------------------------------------------- intrinsics of NVVM, and inline PTX
# A pattern of names, and what is done: an instruction, or several lines, of which the last ones define %r.  In braces:
# r, the type of the result; t, of the first argument; f, LLVM's suffix of the former; and the groups of the pattern.
# In the lines, %0, %1 ... are the arguments.
_PAIR = """%value = trunc i64 %both to i32
%high = lshr i64 %both, 32
%flag = trunc i64 %high to i1
%one = insertvalue {r} undef, i32 %value, 0
%r = insertvalue {r} %one, i1 %flag, 1"""
_TO_INTEGER = """%whole = call {t} @llvm.{rounded}.{tf}({t} %0)
%r = call {r} @llvm.fpto{sign}i.sat.{r}.{tf}({t} %whole)"""
_MULTIPLY_HIGH = """%a = {extend} {r} %0 to i{double}
%b = {extend} {r} %1 to i{double}
%product = mul i{double} %a, %b
%high = lshr i{double} %product, {bits}
%r = trunc i{double} %high to {r}"""
_DIFFERENCE = """%a = sub i32 %0, %1
%b = sub i32 %1, %0
%greater = icmp {sign}gt i32 %0, %1
%absolute = select i1 %greater, i32 %a, i32 %b
%r = add i32 %absolute, %2"""
_FROM_HALVES = """%low = zext i32 %0 to i64
%wide = zext i32 %1 to i64
%high = shl i64 %wide, 32
%bits = or i64 %low, %high
%r = bitcast i64 %bits to double"""
_SATURATE = """%positive = call float @llvm.maxnum.f32(float %0, float 0.0)
%r = call float @llvm.minnum.f32(float %positive, float 1.0)"""
_FIRST_BIT = """%zero = icmp eq i32 %0, 0
%n = call i32 @llvm.ctlz.i32(i32 %0, i1 false)
%r = select i1 %zero, i32 -1, i32 %n"""
_TO_HALF = """%half = fptrunc {t} %0 to half
%r = bitcast half %half to i16"""

_ROUNDED = {"n": "rint", "z": "trunc", "m": "floor", "p": "ceil"}
_SAME_IN_LLVM = {
    "fabs": "fabs", "fmin": "minnum", "fmax": "maxnum", "floor": "floor", "ceil": "ceil", "trunc": "trunc",
    "round": "rint", "ex2": "exp2", "lg2": "log2", "sin": "sin", "cos": "cos", "tanh": "tanh", "sqrt": "sqrt",
}  # fmt: skip
_BARRIERS = {"": 0, ".popc": 1, ".and": 2, ".or": 3}


def _register(m, r, args):
    return _place(PLACE[m["what"]] + 4 * "xyz".index(m["axis"]))


def _barrier(m, r, args):
    return f"call i32 @hc_barrier(i32 {_BARRIERS[m['kind']]}, i32 {'%0' if args else '0'})"


def _same_in_llvm(m, r, args):
    given = ", ".join(f"{t} %{i}" for i, t in enumerate(args))
    return f"call {r} @llvm.{_SAME_IN_LLVM[m['name']]}.{{f}}({given})"


def _multiply_high(m, r, args):
    bits = int(r[1:])
    return _MULTIPLY_HIGH.format(extend="zext" if m["sign"] else "sext", r=r, bits=bits, double=2 * bits)


def _to_integer(m, r, args):
    return _TO_INTEGER.format(
        r=r, t=args[0], tf=_SUFFIX[args[0]], rounded=_ROUNDED[m["mode"]], sign="u" if "u" in m["to"] else "s"
    )


def _from_integer(m, r, args):
    unsigned, wide = "u" in m["of"], "" if args[0] == "i64" else f"{'zext' if 'u' in m['of'] else 'sext'} i32 %0 to i64"
    if m["mode"] == "n" or (r == "double" and wide):
        return f"{'uitofp' if unsigned else 'sitofp'} {args[0]} %0 to {r}"
    name = f"hc_{'u' if unsigned else ''}ll2{m['to']}_r{m['mode']}"
    return f"%wide = {wide or 'add i64 %0, 0'}\n%r = call {r} @{name}(i64 %wide)"


INTRINSICS = [
    (r"read\.ptx\.sreg\.(?P<what>tid|ntid|ctaid|nctaid)\.(?P<axis>[xyz])", _register),
    (r"read\.ptx\.sreg\.warpsize", "add i32 32, 0"),
    (r"read\.ptx\.sreg\.laneid", "call i32 @hc_lane()"),
    (r"barrier0?(\.cta\.sync\.aligned\.all)?(?P<kind>|\.popc|\.and|\.or)", _barrier),
    (r"bar\.warp\.sync", "call void @hc_join(i32 %0)"),
    (r"membar\..*|fence\..*", "fence seq_cst"),
    (r"shfl\.sync\.i32", "%both = call i64 @hc_shuffle(i32 %0, i32 %1, i32 %2, i32 %3, i32 %4)\n" + _PAIR),
    (r"vote\.sync", "%both = call i64 @hc_vote(i32 %0, i32 %1, i1 %2)\n" + _PAIR),
    (r"atomic\.load\.add\..*", "atomicrmw fadd ptr %0, {r} %1 seq_cst"),
    (r"atomic\.load\.(?P<op>inc|dec)\.32\..*", "atomicrmw u{op}_wrap ptr %0, i32 %1 seq_cst"),
    (r"(?P<op>add|mul|div)\.(rn|approx)\.(ftz\.)?[fd]", "f{op} {r} %0, %1"),
    (r"rcp\.(rn|approx)\.(ftz\.)?[fd]", "fdiv {r} 1.0, %0"),
    (r"sqrt\.(rn|approx)\.(ftz\.)?[fd]", "call {r} @llvm.sqrt.{f}({r} %0)"),
    (r"fma\.rn\.(ftz\.)?[fd]", "call {r} @llvm.fma.{f}({r} %0, {r} %1, {r} %2)"),
    (r"(?P<op>add|mul|div)\.(?P<mode>r[zmp])\.(ftz\.)?(?P<to>[fd])", "call {r} @hc_{op}_{mode}_{to}({r} %0, {r} %1)"),
    (r"(?P<op>rcp|sqrt)\.(?P<mode>r[zmp])\.(ftz\.)?(?P<to>[fd])", "call {r} @hc_{op}_{mode}_{to}({r} %0)"),
    (r"fma\.(?P<mode>r[zmp])\.(ftz\.)?(?P<to>[fd])", "call {r} @hc_fma_{mode}_{to}({r} %0, {r} %1, {r} %2)"),
    (r"rsqrt\.approx\.(ftz\.)?[fd]", "%root = call {r} @llvm.sqrt.{f}({r} %0)\n%r = fdiv {r} 1.0, %root"),
    (r"[df]2(?P<to>i|ui|ll|ull)\.r(?P<mode>[nzmp])(\.ftz)?", _to_integer),
    (r"(?P<of>i|ui|ll|ull)2(?P<to>[df])\.r(?P<mode>[nzmp])", _from_integer),
    (r"d2f\.rn(\.ftz)?", "fptrunc double %0 to float"),
    (r"d2f\.(?P<mode>r[zmp])(\.ftz)?", "call float @hc_d2f_{mode}(double %0)"),
    (r"f2h\.rn(\.ftz)?", _TO_HALF),
    (r"d2i\.lo", "%bits = bitcast double %0 to i64\n%r = trunc i64 %bits to i32"),
    (r"d2i\.hi", "%bits = bitcast double %0 to i64\n%high = lshr i64 %bits, 32\n%r = trunc i64 %high to i32"),
    (r"lohi\.i2d", _FROM_HALVES),
    (r"mulhi\.(?P<sign>u?)(i|ll)", _multiply_high),
    (r"sad\.(?P<sign>u|)i", lambda m, r, args: _DIFFERENCE.format(sign=m["sign"] or "s")),
    (r"prmt", "call i32 @hc_prmt(i32 %0, i32 %1, i32 %2)"),
    (r"saturate\.(ftz\.)?f", _SATURATE),
    (rf"(?P<name>{'|'.join(_SAME_IN_LLVM)})\..*", _same_in_llvm),
]

_WIDE = """%a0 = zext {t} %0 to i{double}
%a1 = zext {t} %1 to i{double}
{lines}
%low = trunc i{double} %x to {t}
%upper = lshr i{double} %x, {bits}
%high = trunc i{double} %upper to {t}
%one = insertvalue {r} undef, {t} %low, 0
%r = insertvalue {r} %one, {t} %high, 1"""


def _wide(m, r, args):
    """libdevice's arithmetic on pairs of words: a * b (+ c), and (a, b) + or - (c, d)."""
    bits = int(args[0][1:])
    type, double = args[0], 2 * bits
    if len(args) == 4:
        operation = "sub" if "sub.cc" in m[0] else "add"
        lines = f"""%a2 = zext {type} %2 to i{double}
%a3 = zext {type} %3 to i{double}
%s1 = shl i{double} %a1, {bits}
%s3 = shl i{double} %a3, {bits}
%p0 = or i{double} %a0, %s1
%p1 = or i{double} %a2, %s3
%x = {operation} i{double} %p0, %p1"""
    else:
        third = f"%a2 = zext {type} %2 to i{double}\n" if len(args) == 3 else ""
        lines = f"{third}%m = mul i{double} %a0, %a1\n%x = add i{double} %m, {'%a2' if third else '0'}"
    return _WIDE.format(t=type, r=r, bits=bits, double=double, lines=lines)


def _hinted(m, r, args):
    """A load or a store with a hint for the caches, of a scalar or of a vector, given as several values."""
    n, size = int(m["n"] or 1), int(m["bits"]) // 8
    pointer = "%p = inttoptr i64 %0 to ptr" if args[0] == "i64" else "%p = getelementptr i8, ptr %0, i64 0"
    lines = [pointer, f"call void @hc_access(ptr %p, i32 {n * size}, i32 {n * size})"]
    if m["op"] == "ld":
        return "\n".join([*lines, f"%r = load {r}, ptr %p, align 1"])
    for i, type in enumerate(args[1:]):
        lines += [f"%p{i} = getelementptr i8, ptr %p, i64 {i * size}", f"store {type} %{i + 1}, ptr %p{i}, align 1"]
    return "\n".join(lines)


PTX = [
    (r"mov\.u32 \$0, %dynamic_smem_size", lambda m, r, args: _place(DYNAMIC_SHARED)),
    (r"(nanosleep|brkpt|prefetch).*", ""),
    (r"(membar|fence).*", "fence seq_cst"),
    (r"(?P<op>ld|st)\.[\w.:]*?(v(?P<n>\d)\.)?[busf](?P<bits>\d+) .*", _hinted),
    (r"cvt\.(rn\.)?f(32|64)\.f16 \$0, \$1", "%half = bitcast i16 %0 to half\n%r = fpext half %half to {r}"),
    (r"cvt\.rn\.f16\.f(32|64) \$0, \$1", _TO_HALF),
    (r"rcp\.approx\.(ftz\.)?f32 .*", "fdiv float 1.0, %0"),
    (r"rsqrt\.approx\.(ftz\.)?f(32|64) .*", "%root = call {r} @llvm.sqrt.{f}({r} %0)\n%r = fdiv {r} 1.0, %root"),
    (r"(?P<name>tanh|sqrt|sin|cos|ex2|lg2)\.approx\.(ftz\.)?f32 .*", _same_in_llvm),
    (r"sub\.rn\.(ftz\.)?f(32|64) .*", "fsub {r} %0, %1"),
    (
        r"sub\.(?P<mode>r[zmp])\.(ftz\.)?f32 .*",
        "%m = fneg float %1\n%r = call float @hc_add_{mode}_f(float %0, float %m)",
    ),
    (r"sub\.(?P<mode>r[zmp])\.f64 .*", "%m = fneg double %1\n%r = call double @hc_add_{mode}_d(double %0, double %m)"),
    (r"bfind\.shiftamt\.u32 .*", _FIRST_BIT),
    (r".*setp\.equ\.f64.*", "%equal = fcmp ueq double %0, %1\n%r = select i1 %equal, double %2, double %3"),
    (r".*(mad\.lo\.cc|mul\.lo|add\.cc|sub\.cc).*", _wide),
]

_SUFFIX = {"float": "f32", "double": "f64"}


# ------------------------------------------------------------------------------------------- the functions, on demand
class Helpers:
    """The functions that a program needs: what they were made for by name, and their text."""

    def __init__(self) -> None:
        self.made: dict[str, str] = {}

    def added_to(self, text: str) -> str:
        """Return the text of a module with these functions, and the declarations that they need."""
        mine = "\n".join(self.made.values())
        return f"{text}\n{mine}\n{declarations(mine, known=text)}"

    def define(self, name: str, result: str, args: list[str], body: str) -> None:
        """Define a function by the lines of its body, or by the one instruction whose value it returns."""
        lines = body.split("\n") if body else []
        if len(lines) == 1 and result != "void":
            lines = [f"%r = {body}"]
        lines.append(f"ret {result} %r" if result != "void" else "ret void")
        parameters = ", ".join(f"{t} %{i}" for i, t in enumerate(args))
        convergent = " convergent" if "@hc_barrier" in body else ""
        inside = "\n  ".join(lines)
        self.made[name] = (
            f'define linkonce_odr {result} @"{name}"({parameters}) alwaysinline{convergent} {{\nentry:\n  {inside}\n}}'
        )

    def unsupported(self, name: str, result: str, args: list[str], what: str) -> None:
        """Define a function that fails."""
        data = what.encode()
        text = "".join(f"\\{byte:02x}" for byte in data)
        self.define(name, result, args, f'call void @hc_unsupported(ptr @"{name}.what")\n%r = freeze {result} poison')
        if result == "void":
            self.define(name, result, args, f'call void @hc_unsupported(ptr @"{name}.what")')
        self.made[name] += f'\n@"{name}.what" = private constant [{len(data) + 1} x i8] c"{text}\\00"'

    def from_table(self, table: list, text: str, name: str, result: str, args: list[str], what: str) -> str:
        """Define a function by the row of a table that the text matches, and return its name."""
        if name in self.made:
            return name
        for pattern, body in table:
            if m := re.fullmatch(pattern, text, re.DOTALL):
                if callable(body):
                    body = body(m, result, args)
                known = {"r": result, "t": args[0] if args else "", "f": _SUFFIX.get(result, result), **m.groupdict()}
                body = re.sub(r"\{(\w+)\}", lambda found: str(known.get(found[1], found[0])), body)
                self.define(name, result, args, body)
                return name
        self.unsupported(name, result, args, what)
        return name

    def intrinsic(self, name: str, result: str, args: list[str]) -> str:
        """Define what stands for an intrinsic, whose name is given without llvm.nvvm."""
        return self.from_table(INTRINSICS, name, f"hcx.{name}", result, args, f"the intrinsic llvm.nvvm.{name}")

    def ptx(self, text: str, result: str, args: list[str]) -> str:
        """Define what stands for inline PTX."""
        text = re.sub(r"\\([0-9A-Fa-f]{2})", lambda m: chr(int(m[1], 16)), text).strip().rstrip(";")
        name = "hcx." + re.sub(r"\W+", "_", f"{text} {result} {' '.join(args)}")
        return self.from_table(PTX, text, name, result, args, f"the inline PTX {text!r}")

    def access(self, space: str, align: int) -> str:
        """Define the check before a load or a store, and return its name."""
        name = f"hcx.access.{re.sub(r'[^0-9]', '', space) or 0}.{align}"
        cast = f"addrspacecast ptr {space} %0 to ptr" if space else "getelementptr i8, ptr %0, i64 0"
        if name not in self.made:
            self.made[name] = f"""define linkonce_odr void @"{name}"(ptr {space} %0, i32 %1) alwaysinline {{
  %p = {cast}
  %address = ptrtoint ptr %p to i64
  %start = {_place(ARENA, "i64")}
  %size = {_place(ARENA_SIZE, "i64")}
  %offset = sub i64 %address, %start
  %outside = icmp uge i64 %offset, %size
  %rest = and i64 %address, {align - 1}
  %odd = icmp ne i64 %rest, 0
  %unusual = or i1 %outside, %odd
  br i1 %unusual, label %look, label %done
look:
  call void @hc_access(ptr %p, i32 {align}, i32 %1)
  br label %done
done:
  ret void
}}"""
        return name


def declarations(text: str, known: str) -> str:
    """Return the declarations of what the bodies of helpers use, beyond those of a module's text."""
    found = {"place": "@hostcuda_place = external global [9 x i64]"} if "@hostcuda_place" in text else {}
    for result, name, args in re.findall(r"call (\w+) @(hc_\w+|llvm\.[\w.]+)\(([^)]*)\)", text):
        types = ", ".join(arg.split()[0] for arg in args.split(",") if arg.strip())
        found[name] = f"declare {result} @{name}({types})"
    for name in re.findall(r'^declare [^@\n]*@"?([\w.]+)"?\(', known, re.MULTILINE):
        found.pop(name, None)
    return "\n".join(found.values())


# ------------------------------------------------------------------------------------------------------ a module's text
_NAME = r'(?:"[^"\n]*"|[\w.$-]+)'
_DROPPED = re.compile(r'^(?:target |!nvvm|@"?llvm\.used"? = |.*@"?llvm\.dbg\.).*\n', re.MULTILINE)
_INTRINSIC = re.compile(r'^declare (.+?) @"?llvm\.nvvm\.([\w.]+)"?\((.*)\).*\n', re.MULTILINE)
_ASSEMBLY = re.compile(
    r'call ([^"\n]+?) asm +(?:sideeffect +)?(?:alignstack +)?"((?:[^"\\]|\\.)*)", "[^"]*"\s*\(([^()\n]*)\)'
)
_SHARED = re.compile(rf"^(@{_NAME} = )[\w ]*addrspace\(3\) global (.+?) \w+(, align \d+)?$", re.MULTILINE)
_DYNAMIC = re.compile(rf"^@({_NAME}) = external [\w ]*addrspace\(3\) global .*\n", re.MULTILINE)

_LOCAL = r'%(?:"[^"\n]*"|[\w.$-]+)'
_DERIVED = rf"(?:getelementptr |bitcast )[^\n]*?\* ({_LOCAL})(?:,| to )"
_ON_STACK = re.compile(rf"^ *({_LOCAL}) = (?:alloca |{_DERIVED})", re.MULTILINE)
_SPACE = r"addrspace\(\d+\)"
_ACCESS = re.compile(
    rf"""^\ *(?:
        {_LOCAL}\ =\ load\ (?:volatile\ )?(?P<load>\S.*?),\ (?P=load)(?P<load_space>\ {_SPACE})?\*\ (?P<from>{_LOCAL})
        |store\ (?:volatile\ )?(?P<store>\S.*?)\ \S.*,\ (?P=store)(?P<store_space>\ {_SPACE})?\*\ (?P<to>{_LOCAL})
        |{_LOCAL}\ =\ (?:atomicrmw\ \w+|cmpxchg)(?:\ volatile)?\ (?P<atomic>\w+)(?P<atomic_space>\ {_SPACE})?\*
         \ (?P<at>{_LOCAL})
    )(?:,\ align\ (?P<align>\d+))?""",
    re.MULTILINE | re.VERBOSE,
)
_SIZES = {"double": 8, "float": 4, "half": 2, "bfloat": 2}


def split(text: str) -> list[str]:
    """Split a list of types at its commas, but not at those within brackets."""
    parts, level = [""], 0
    for c in text:
        level += c in "([{<"
        level -= c in ")]}>"
        if c == "," and not level:
            parts.append("")
        else:
            parts[-1] += c
    return [part.strip() for part in parts if part.strip()]


def _type_of(parameter: str) -> str:
    """Return the type of a parameter, without its name and attributes."""
    return re.sub(r" (?:%|noundef|readonly|nocapture|immarg|noalias|captures|writeonly|nonnull).*", "", parameter)


def _scalar_size(type: str) -> int:
    """Return the size in bytes of the largest scalar in a type, or of a vector; 1 if it is not known."""
    if m := re.fullmatch(r"<(\d+) x (\w+)>", type):
        return int(m[1]) * _scalar_size(m[2])
    if "*" in type or "ptr" in type:
        return 8
    return max([_SIZES.get(t) or int(t[1:]) // 8 for t in re.findall(r"double|float|half|bfloat|i\d+", type)] + [1])


def check_accesses(text: str, helpers: Helpers) -> str:
    """Put a check before each load and store of more than a byte in a function, but for those of its own variables."""
    stack = {'%".ret"'}  # what the caller has for the result
    for name, base in _ON_STACK.findall(text):
        if not base or base in stack:
            stack.add(name)

    def checked(m: re.Match[str]) -> str:
        pointer, type = m["from"] or m["to"] or m["at"], m["load"] or m["store"] or m["atomic"]
        size = _scalar_size(type)
        align = int(m["align"] or size)
        if pointer in stack or size == 1:
            return m[0]
        space = (m["load_space"] or m["store_space"] or m["atomic_space"] or "").strip()
        name = helpers.access(space, align)
        access = m[0].removesuffix(f", align {align}")
        if m["align"]:
            access += ", align 1"  # or the check could be left to the processor, where it is off
        return f'  call void @"{name}"(ptr {space} {pointer}, i32 {size})\n{access}'

    return _ACCESS.sub(checked, text)


def host_text(text: str, helpers: Helpers, *, check: bool = True) -> str:
    """Return the IR of a module for this machine; what it needs is added to the helpers."""
    text = _DROPPED.sub("", text + "\n")
    for result, name, args in _INTRINSIC.findall(text):
        helpers.intrinsic(name, result.strip(), [_type_of(arg) for arg in split(args)])
    text = re.sub(r'@"?llvm\.nvvm\.([\w.]+)"?', r'@"hcx.\1"', _INTRINSIC.sub("", text))
    if check:
        text = re.sub(r"^define .*?^}", lambda m: check_accesses(m[0], helpers), text, flags=re.MULTILINE | re.DOTALL)

    def assembly(m: re.Match[str]) -> str:
        types = [arg.rsplit(" ", 1)[0] for arg in split(m[3])]
        return f'call {m[1]} @"{helpers.ptx(m[2], m[1].strip(), types)}"({m[3]})'

    if " asm " in text:
        text = _ASSEMBLY.sub(assembly, text)
    if "addrspace(3) global" in text:
        for name in _DYNAMIC.findall(text):
            text = re.sub(rf"@{re.escape(name)}(?![\w.$-])", "@hostcuda_dynamic", text)
        text = _DYNAMIC.sub("", text) + "\n@hostcuda_dynamic = external addrspace(3) global [0 x i8]\n"
        text = _SHARED.sub(r'\1addrspace(3) global \2 zeroinitializer, section ".shared", align 64', text)
    if "vprintf" in text:
        text = re.sub(r'@"?vprintf"?(?=\()', "@hc_print", text)
    return text
