"""From the IR of a kernel to an object file, which stands for its cubin; and libdevice likewise.

driver/images.c says what such a file has, and loads it.
"""

from __future__ import annotations

import functools
import hashlib
import os
import re
import sysconfig
import threading
from pathlib import Path

import llvmlite.binding as llvm

from tests.hostcuda.building import HERE, cache_directory, write_at_once
from tests.hostcuda.rewriting import Helpers, host_text, split

FAST_CODE = os.environ.get("HOSTCUDA_OPT", "0") != "0"
"""Whether to spend time on better code.  A test's kernels run for a shorter time than they are compiled."""

_lock = threading.Lock()


@functools.cache
def _target() -> llvm.TargetMachine:
    llvm.initialize_native_target()
    llvm.initialize_native_asmprinter()
    return llvm.Target.from_default_triple().create_target_machine(
        cpu=llvm.get_host_cpu_name(),
        features=llvm.get_host_cpu_features().flatten(),
        opt=2 if FAST_CODE else 0,
        codemodel="large",
        reloc="static",
    )


def _parse(text: str) -> llvm.ModuleRef:
    target = _target()
    header = f'target triple = "{target.triple}"\ntarget datalayout = "{target.target_data}"\n'
    try:
        return llvm.parse_assembly(header + text)
    except RuntimeError as error:
        path = cache_directory() / "unreadable.ll"
        path.write_text(header + text)
        msg = f"hostcuda wrote IR that LLVM does not read, to {path}: {error}"
        raise RuntimeError(msg) from None


def _optimise(module: llvm.ModuleRef) -> None:
    builder = llvm.create_pass_builder(
        _target(), llvm.create_pipeline_tuning_options(speed_level=2 if FAST_CODE else 1)
    )
    if FAST_CODE:
        passes = builder.getModulePassManager()
    else:
        passes = llvm.create_new_module_pass_manager()
        passes.add_always_inliner_pass()
        passes.add_sroa_pass()
        passes.add_instruction_combine_pass()
    passes.run(module, builder)


def _text_module(text: str, *, check: bool = True) -> llvm.ModuleRef:
    helpers = Helpers()
    return _parse(helpers.added_to(host_text(text, helpers, check=check)))


# ----------------------------------------------------------------------------------------------------------- libdevice
def libdevice_source() -> Path | None:
    """Return the path of libdevice, in bitcode, if it is there; HOSTCUDA_LIBDEVICE is another, or "none"."""
    if path := os.environ.get("HOSTCUDA_LIBDEVICE"):
        return Path(path) if Path(path).exists() else None
    inside = "nvvm/libdevice/libdevice.10.bc"
    site = Path(sysconfig.get_path("purelib"), "nvidia")
    found = [*site.glob(f"*/{inside}"), *Path("/usr/local").glob(f"cuda*/{inside}")]
    return min(found, default=None)


def libdevice_object() -> Path | None:
    """Return where libdevice's object file is, or will be, once it is built; None if there is no libdevice."""
    source = libdevice_source()
    if source is None:
        return None
    about = source.stat()
    mine = b"".join((HERE / name).read_bytes() for name in ("rewriting.py", "compiling.py"))
    key = mine + f"{source} {about.st_size} {about.st_mtime_ns} {llvm.get_host_cpu_name()} {FAST_CODE}".encode()
    return cache_directory() / f"libdevice-{hashlib.sha256(key).hexdigest()[:16]}.o"


_CONSTANTS = {"__CUDA_FTZ": 0, "__CUDA_PREC_DIV": 1, "__CUDA_PREC_SQRT": 1, "__CUDA_ARCH": 900}


@functools.cache
def build_libdevice() -> None:
    """Build libdevice's object file if it is not there, and may be."""
    path = libdevice_object()
    if path is None or path.exists():
        return
    text = str(llvm.parse_bitcode(libdevice_source().read_bytes()))
    strings = dict(re.findall(r'^(@[\w.]+) = .*c"(\w+)\\00"', text, re.MULTILINE))
    text = re.sub(
        r"(?:tail )?call i32 @__nvvm_reflect\(ptr (?:noundef |nonnull )*(@[\w.]+)\)",
        lambda m: f"add i32 0, {_CONSTANTS.get(strings.get(m[1]), 0)}",
        text,
    )
    text = re.sub(r"^(add i32 0, \d) #\d+", r"\1", re.sub(r"(= add i32 0, \d+) #\d+", r"\1", text))
    text = re.sub(r"^define (?:internal |linkonce_odr |weak_odr )?", "define ", text, flags=re.MULTILINE)
    module = _text_module(text, check=False)
    _optimise(module)
    write_at_once(path, lambda to: to.write_bytes(_target().emit_object(module)))


# ------------------------------------------------------------------------------------------------------------- kernels
_ENTRIES = """
declare void @"{kernel}"({types})
@hostcuda_place = external global [9 x i64]
@hostcuda_name = private constant [{length} x i8] c"{kernel}\\00"
@hostcuda_title = private constant [{title_length} x i8] c"{title}\\00"
@hostcuda_info = constant {{ptr, ptr, i32, i32, i32, i32, i32, [{n} x i32]}} {{
  ptr @hostcuda_name, ptr @hostcuda_title, i32 {barriers}, i32 {local}, i32 {constant}, i32 {threads},
  i32 {n}, [{n} x i32] [{sizes}] }}

define void @hostcuda_thread(ptr %parameters) {{
  {loads}
  call void @"{kernel}"({arguments})
  ret void
}}

define void @hostcuda_block(ptr %parameters, i32 %backwards) {{
entry:
  {loads}
  %size = getelementptr i32, ptr @hostcuda_place, i64 3
  %size_y = getelementptr i32, ptr %size, i64 1
  %size_z = getelementptr i32, ptr %size, i64 2
  %nx = load i32, ptr %size
  %ny = load i32, ptr %size_y
  %nz = load i32, ptr %size_z
  %nxy = mul i32 %nx, %ny
  %n = mul i32 %nxy, %nz
  %last = sub i32 %n, 1
  %back = icmp ne i32 %backwards, 0
  %at_y = getelementptr i32, ptr @hostcuda_place, i64 1
  %at_z = getelementptr i32, ptr @hostcuda_place, i64 2
  br label %thread
thread:
  %i = phi i32 [ 0, %entry ], [ %next, %thread ]
  %mirrored = sub i32 %last, %i
  %t = select i1 %back, i32 %mirrored, i32 %i
  %x = urem i32 %t, %nx
  %rest = udiv i32 %t, %nx
  %y = urem i32 %rest, %ny
  %z = udiv i32 %rest, %ny
  store i32 %x, ptr @hostcuda_place
  store i32 %y, ptr %at_y
  store i32 %z, ptr %at_z
  call void @"{kernel}"({arguments})
  %next = add i32 %i, 1
  %done = icmp eq i32 %next, %n
  br i1 %done, label %out, label %thread
out:
  ret void
}}
"""


def _bytes_of(pattern: str, text: str) -> int:
    """Return the bytes of the arrays that a pattern finds as (count, type)."""
    sizes = {"float": 4, "double": 8, "half": 2}
    return sum(int(n) * (sizes.get(t) or int(t[1:]) // 8) for n, t in re.findall(pattern, text))


def plain_name(mangled: str) -> str:
    """Return module.function for a name that Numba has mangled."""
    parts, rest = [], mangled.removeprefix("_ZN")
    while rest != mangled and (m := re.match(r"\d+", rest)):
        end = m.end() + int(m[0])
        parts.append(rest[m.end() : end])
        rest = rest[end:]
    return ".".join(parts).replace("_3c", "<").replace("_3e", ">") or mangled


def _entries(entry: str, function: llvm.ValueRef, text: str) -> str:
    """Return the text of what the driver calls, and of what it has to know."""
    data = _target().target_data
    types = [str(argument.type) for argument in function.arguments]
    sizes = [data.get_abi_size(a.type) | (a.type.is_pointer << 31) for a in function.arguments]
    loads = [
        f"%at{i} = getelementptr ptr, ptr %parameters, i64 {i}\n"
        f"  %from{i} = load ptr, ptr %at{i}\n"
        f"  %a{i} = load {t}, ptr %from{i}, align 1"
        for i, t in enumerate(types)
    ]
    title = plain_name(entry)
    most = re.search(rf'!{{[^}}\n]*@"?{re.escape(entry)}"?, !"maxntidx", i32 (\d+)', text)
    return _ENTRIES.format(
        kernel=entry,
        length=len(entry) + 1,
        title=title,
        title_length=len(title) + 1,
        n=len(types),
        types=", ".join(types),
        sizes=", ".join(f"i32 {size}" for size in sizes),
        loads="\n  ".join(loads),
        arguments=", ".join(f"{t} %a{i}" for i, t in enumerate(types)),
        barriers=int(any(word in text for word in ("nvvm.barrier", "nvvm.bar.warp", "nvvm.shfl", "nvvm.vote"))),
        local=_bytes_of(r'%"?_cudapy_lmem[^=]*= alloca \[(\d+) x (\w+)', text),
        constant=_bytes_of(r'^@"?_cudapy_cmem[^=]*= .*?constant \[(\d+) x (\w+)', text),
        threads=most[1] if most else 0,
    )


def _close(module: llvm.ModuleRef) -> None:
    """Define functions that are nowhere as ones that fail."""
    helpers = Helpers()
    for function in module.functions:
        name = function.name
        if not function.is_declaration or name.startswith(("llvm.", "hc_")):
            continue
        if name.startswith("__nv_"):
            build_libdevice()
            continue
        m = re.fullmatch(r"(.*?) \((.*)\)", str(function.global_value_type))
        helpers.unsupported(name, m[1], split(m[2]), f"the external function {name}")
    if helpers.made:
        module.link_in(_parse(helpers.added_to("")))


def compile_kernel(texts: list[str], entry: str) -> bytes:
    """Compile the modules of a kernel, given as IR, to an object file."""
    with _lock:
        module, *others = [_text_module(text) for text in texts]
        for other in others:
            module.link_in(other)
        module.link_in(_parse(_entries(entry, module.get_function(entry), "\n".join(texts))))
        _close(module)
        for function in module.functions:
            if not function.is_declaration and not function.name.startswith("hostcuda_"):
                function.linkage = "internal"
        if os.environ.get("HOSTCUDA_DUMP"):
            print(module)
        module.verify()
        _optimise(module)
        return _target().emit_object(module)
