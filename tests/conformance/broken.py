"""One way, or more, to break the reference library for each check: what `test_broken` and `tests/mutants.py` run."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

FOLDER = Path(__file__).parent
NATIVE = "reference_native.py"


class Row(NamedTuple):
    """A text that stands in the library exactly once, and what to put in its place so that a check fails."""

    check: str
    text: str
    replacement: str
    file: str = "reference.py"
    variant: str = "cpu"
    """Of the library, see `VARIANTS`."""


VARIANTS = {
    "cpu": ("ReferenceAdapter", "cpu"),
    "ext": ("ReferenceAdapter", "ext"),
    "wrapper": ("WrapperAdapter", "cpu"),
    "values": ("ValuesAdapter", "cpu"),
}
"""Adapters of the reference library, and their devices."""


def patched(row: Row) -> str:
    """Return the source of the file as a row has it; raise ValueError if it does not fit."""
    text = (FOLDER / row.file).read_text()
    found = text.count(row.text)
    if found != 1:
        msg = f"{row.check}: the text stands in {row.file} {found} times, not once: {row.text!r}"
        raise ValueError(msg)
    return text.replace(row.text, row.replacement)


DICT_OF_REASONS = """            f"the shape {shape}, of more elements than can be": math.prod(n or 1 for n in shape) * itemsize > LARGEST,
"""
REACH = """            f"strides {strides} that reach beyond all memory": address + low < 0 or address + high > 2**64,
"""
REASONS = '    refuse(\n        {\n            f"no data'
COMPACT = "    compact = tuple(math.prod(shape[i + 1 :]) for i in range(ndim))\n"
ADDRESS = "address = (t.data or 0) + t.byte_offset"
MAJOR = "managed.version.major != VERSION[0]"
READONLY = "readonly = bool(flags & READ_ONLY or layout.overlapping)"
STRIDES = "tuple(t.strides[:ndim]) if ndim and t.strides else"
RENAME = '    rename(capsule, f"used_{name}")\n'
SOURCE = "    capsule = x if type(x) is Capsule else ask(x, device, copy)\n"
WANTED = 'wanted: dict[str, Any] = {"max_version": VERSION}'
EXPORT = "    return x.managed(VERSIONED)\n"
COPIED = "    return Array.of(x.look(), x.storage.memory.device) if copy and not copied else x\n"
DEVICE = "    kind, number = x.__dlpack_device__()\n"
KEYWORDS = 'return "argument" in str(error)'
THEIR_DEVICE = "device, numbers = (t.device.device_type, t.device.device_id),"
REFUSAL = """            msg = f"the tensor has {reason}"
            raise BufferError(msg)
"""

EXPORTED = "    address = self.managed(name, there if copy or there != here else None)\n"
NUMBERS = "numbers = CODES.get(x.dtype)\n"
DIMS = "        dims[:] = x.dims\n"
MADE = "(Array.of(self.look(), copy), IS_COPIED) if copy else"
FLAG = "READ_ONLY if self.readonly else 0)"
SIGNATURE = "self, *, stream: Any = None, max_version: Any = None, dl_device: Any = None, copy: Any = None\n"
INVERSE = "CODES = {dtype: numbers for"
NOT_THERE = """with copy={copy}"
            raise BufferError(msg)
"""
DATA = "tensor.data = self.storage.memory.address + self.offset if math.prod(self.shape) else None"
ADDRESS_OF_ROOM = "return cls(room.ctypes.data + -room.ctypes.data % ALIGNMENT,"


def strides(each: str) -> str:
    """Return how strides are exported that are something else, for each of shape, stride and item size n, s and k."""
    return (
        "        k = x.dtype.itemsize\n        dims[:] = [*x.shape, *["
        + each
        + " for n, s in zip(x.shape, x.strides)]]\n"
    )


PRODUCER = (
    Row("P01", "return new_capsule(address, name, code", "return new_capsule(address, name.upper(), code"),
    Row("P02", "managed.version.major, managed.version.minor = VERSION", "managed.version.major = 2"),
    Row("P03", FLAG, "READ_ONLY if self.readonly else IS_COPIED)"),
    Row("P04", NUMBERS, NUMBERS + "        numbers = (1, numbers[1]) if numbers and name == LEGACY else numbers\n"),
    Row(
        "P05",
        "        dims = (c_int64 * (2 * ndim)).from_address(address + ctypes.sizeof(kind))\n" + DIMS,
        "        dims = x.dims\n",
    ),
    Row("P06", '(0, 8 * n): np.dtype(f"i{n}")', '(0, n): np.dtype(f"i{n}")'),
    Row("P07", INVERSE, "CODES = {dtype: (numbers[0] if numbers[0] != 1 else 0, numbers[1]) for"),
    Row("P08", INVERSE, "CODES = {dtype: (numbers[0], min(numbers[1], 32)) for"),
    Row("P09", INVERSE, "CODES = {dtype: (numbers[0], numbers[1] // (1 + (numbers[0] == 5))) for"),
    Row("P10", INVERSE, "CODES = {dtype: (1, 8) if numbers[0] == 6 else numbers for"),
    Row("P11", INVERSE, "CODES = {dtype: (2, 16) if numbers[0] == 4 else numbers for"),
    Row("P12", INVERSE, "CODES = {dtype: (7, 8) if numbers[0] > 6 else numbers for"),
    Row("P13", "CODES.get(x.dtype)", "CODES.get(x.dtype, (0, 8 * x.dtype.itemsize))"),
    Row("P14", "CODES.get(x.dtype)", "CODES.get(x.dtype, (0, 8 * x.dtype.itemsize))"),
    Row(
        "P15",
        '            msg = f"DLPack has no dtype {x.dtype}"\n            raise BufferError(msg)\n',
        '            msg = f"DLPack has no dtype {x.dtype}"\n            raise TypeError(msg)\n',
    ),
    Row("P16", "        return self.storage.memory.device\n", "        return 1\n"),
    Row("P17", "        return self.storage.memory.device\n", "        return SimpleNamespace(value=1), 0\n"),
    Row(
        "P18",
        "tensor.device.device_type, tensor.device.device_id = self.storage.memory.device",
        "tensor.device.device_type = 3",
    ),
    Row("P19", "        return self.storage.memory.device\n", "        return CPU[0], 1\n"),
    Row("P20", "        tensor.strides = ctypes.cast(", "        tensor.strides = None and ctypes.cast("),
    Row(
        "P21",
        "        set_dims(managed.dl_tensor, dims)\n",
        "        set_dims(managed.dl_tensor, dims)\n        if name == LEGACY:\n            managed.dl_tensor.strides = None\n",
    ),
    Row("P22", DIMS, strides("s * k")),
    Row("P23", DIMS, "        dims[:] = [*x.shape, *[math.prod(x.shape[i + 1 :]) for i in range(ndim)]]\n"),
    Row("P24", DATA, DATA.replace(" + self.offset", "")),
    Row("P25", DIMS, strides("s * k % 2**64 // k")),
    Row("P26", DIMS, strides("1 if n == 1 else s")),
    Row("P27", DIMS, strides("s or 1")),
    Row("P28", "np.broadcast_to(a, shape), readonly=True)", "np.broadcast_to(a, shape))"),
    Row("P29", ADDRESS, "address = t.data or 0"),
    Row("P30", DATA, DATA.replace("math", "self.shape and math")),
    Row("P31", "    if tensor.ndim:\n", "    if tensor.data:\n"),
    Row("P32", DATA, DATA.replace(" if math.prod(self.shape) else None", "")),
    Row(
        "P33",
        "tensor.ndim, tensor.byte_offset = len(self.shape), 0",
        "tensor.ndim, tensor.byte_offset = len(self.shape), self.offset\n        tensor.data = self.storage.memory.address",
    ),
    Row("P34", ADDRESS_OF_ROOM, "return cls(room.ctypes.data + -(room.ctypes.data + 32) % ALIGNMENT,"),
    Row("P35", ADDRESS_OF_ROOM, "return cls(room.ctypes.data + -(room.ctypes.data + 64) % ALIGNMENT,"),
    Row("P36", MADE, "(Array.of(self.look(), CPU), 0) if 1 else"),
    Row("P37", MADE, "(Array.of(self.look(), CPU), 0) if 1 else"),
    Row("P38", SIGNATURE, SIGNATURE.replace(", dl_device: Any = None, copy: Any = None", "")),
    Row("P39", SIGNATURE, SIGNATURE.replace("*, ", "")),
    Row("P40", SIGNATURE, SIGNATURE.replace("\n", ", **_: Any\n")),
    Row("P41", "versioned = max_version is not None and", "versioned = max_version is None or"),
    Row("P42", 'pair("max_version", max_version)[0] >= 1', '{0: False, 1: True}[pair("max_version", max_version)[0]]'),
    Row("P43", 'pair("max_version", max_version)[0] >= 1', 'pair("max_version", max_version)[0] > 100'),
    Row("P44", 'pair("max_version", max_version)[0] >= 1', "max_version[0] >= 1"),
    Row("P45", "if stream not in (None, -1):", "if stream != -1:"),
    Row("P46", "if type(stream) is not int and stream is not None:", "if stream is not None:"),
    Row("P47", "if stream not in (None, -1):", "if stream == -2:"),
    Row(
        "P48",
        '            msg = f"stream must be None or an int, not {stream!r}"\n            raise TypeError(msg)\n',
        '            msg = f"stream must be None or an int, not {stream!r}"\n            raise BufferError(msg)\n',
    ),
    Row("P49", EXPORTED, EXPORTED.replace("if copy or there != here", "if copy or dl_device")),
    Row("P50", MADE, "(Array.of(self.look(), copy), 0) if copy else", variant="ext"),
    Row("P51", NOT_THERE, NOT_THERE.replace("BufferError", "ValueError")),
    Row("P52", "if there not in (here, CPU)", "if there[0] not in (here[0], CPU[0])"),
    Row("P53", 'pair("dl_device", dl_device)\n', "dl_device\n"),
    Row("P54", "if stream not in (None, -1):", "if stream not in (None, -1) and dl_device is None:"),
    Row("P55", EXPORTED, EXPORTED.replace("if copy or", "if copy and versioned or")),
    Row("P56", MADE, "(Array.of(self.look(), copy), 0) if copy else"),
    Row("P57", MADE, "(Array.of(self.look().ravel().reshape(self.shape[::-1]).T, copy), IS_COPIED) if copy else"),
    Row("P58", EXPORTED, EXPORTED.replace("if copy or", "if copy is not None or")),
    Row("P59", NOT_THERE, NOT_THERE.replace("BufferError", "(ValueError if copy is False else BufferError)")),
    Row(
        "P60",
        "if type(copy) is not bool and copy is not None:",
        "if copy == 2:",
    ),
    Row("P61", EXPORTED, EXPORTED.replace("if copy or", "if copy and dl_device is None or")),
)

CONSUMER = (
    Row("C01", RENAME, RENAME.rstrip() + " if name == LEGACY else None\n"),
    Row("C01", "managed = KINDS[name].from_address", "managed = KINDS[LEGACY].from_address"),
    Row("C02", RENAME, RENAME.rstrip() + " if name == VERSIONED else None\n"),
    Row(
        "C03",
        SOURCE,
        "    if type(x) is Capsule and name_of(x) in KINDS:\n        managed = KINDS[name_of(x)].from_address(pointer_of(x))\n"
        "        return adopt(managed, checked(managed))\n" + SOURCE,
    ),
    Row("C04", RENAME, RENAME.rstrip() + " if name == LEGACY else None\n"),
    Row("C05", RENAME, ""),
    Row("C06", 'np.dtype(f"u{n}")', 'np.dtype(f"i{n}")'),
    Row("C07", 'np.dtype(f"float8_{name}")', 'np.dtype("float8_e5m2")'),
    Row("C08", "DTYPES = {\n", 'DTYPES = {\n    (1, 4): np.dtype("u1"),\n'),
    Row("C09", '    (6, 8): np.dtype("bool"),', '    (6, 8): np.dtype("bool"), (1, 4): np.dtype("u1"),'),
    Row("C10", "tuple(math.prod(shape[i + 1 :])", "tuple(math.prod(shape[:i])"),
    Row("C11", ADDRESS, "address = t.data or 0"),
    Row("C12", ADDRESS, ADDRESS + " * bool(t.strides or not ndim)"),
    Row("C13", "tuple(t.shape[:ndim]) if ndim else ()", "tuple(t.shape[: max(ndim, 1)])[:ndim]"),
    Row("C14", "not t.data and size", "not t.data"),
    Row("C15", REASONS, COMPACT + "    refuse({'odd strides': size == 0 and strides != compact})\n" + REASONS),
    Row("C16", REASONS, COMPACT + "    refuse({'odd strides': size and strides != compact})\n" + REASONS),
    Row("C17", STRIDES, "tuple(t.strides[:ndim]) if ndim and False else"),
    Row("C18", STRIDES, "tuple(map(abs, t.strides[:ndim])) if ndim and t.strides else"),
    Row("C19", STRIDES, "tuple([n or 1 for n in t.strides[:ndim]]) if ndim and t.strides else"),
    Row("C20", ADDRESS, "address = ((t.data or 0) + t.byte_offset) // itemsize * itemsize"),
    Row("C21", "    ndim = t.ndim\n", "    ndim = min(t.ndim, 32)\n"),
    Row(
        "C22",
        "        return self.look().copy()",
        "        memory = self.storage.memory\n"
        "        ctypes.string_at(memory.address, -(-memory.nbytes // 64) * 64)\n"
        "        return self.look().copy()",
    ),
    Row("C23", "not t.data and size", "False"),
    Row(
        "C24", 'f"{ndim} dimensions": not 0 <= ndim <= MOST_DIMENSIONS', 'f"{ndim} dimensions": ndim > MOST_DIMENSIONS'
    ),
    Row(
        "C25",
        '        "no shape": ndim > 0 and not t.shape,\n    }\n    refuse(reasons)\n'
        "    shape = tuple(t.shape[:ndim]) if ndim else ()\n",
        "    }\n    refuse(reasons)\n    shape = tuple(t.shape[:ndim]) if t.shape else (1,) * ndim\n",
    ),
    Row("C26", '    refuse({f"the shape {shape}": any(n < 0 for n in shape)})\n', ""),
    Row("C27", DICT_OF_REASONS + REACH, ""),
    Row(
        "C28",
        DICT_OF_REASONS + REACH,
        DICT_OF_REASONS.replace(" * itemsize", ""),
    ),
    Row("C29", REACH, ""),
    Row("C30", '        f"{t.dtype.lanes} lanes": t.dtype.lanes != 1,\n', ""),
    Row("C31", "dtype = DTYPES.get(numbers)", "dtype = DTYPES.get((numbers[0], -(-numbers[1] // 8) * 8))"),
    Row("C32", "dtype = DTYPES.get(numbers)", "dtype = DTYPES.get(numbers) or DTYPES.get((1, numbers[1]))"),
    Row("C33", THEIR_DEVICE, "device, numbers = CPU,"),
    Row("C34", THEIR_DEVICE, "device, numbers = CPU,"),
    Row(
        "C35",
        DEVICE,
        "    try:\n    " + DEVICE + "    except Exception:\n"
        '        msg = "error return without exception set"\n        raise SystemError(msg)\n',
    ),
    Row("C36", MAJOR, "False"),
    Row(
        "C37",
        "    if isinstance(managed, DLManagedTensorVersioned) and " + MAJOR,
        "    if managed.dl_tensor.ndim and managed.dl_tensor.shape:\n        managed.dl_tensor.shape[0]\n"
        "    if isinstance(managed, DLManagedTensorVersioned) and " + MAJOR,
    ),
    Row("C38", MAJOR, "(managed.version.major, managed.version.minor) > VERSION"),
    Row("C39", MAJOR, "managed.version.major > VERSION[0]"),
    Row("C40", READONLY, "readonly = layout.overlapping"),
    Row("C41", "offset, readonly or self.readonly)", "offset, readonly)"),
    Row("C42", "READ_ONLY if self.readonly else 0)", "0)"),
    Row("C43", READONLY, "refuse({'unknown flags': flags & ~7})\n    " + READONLY),
    Row(
        "C44",
        "        if self.deleter:\n            call(self.deleter)(self.address)",
        "        call(self.deleter or 0)(self.address)",
    ),
    Row(
        "C45", "    name = name_of(capsule)\n", '    name = VERSIONED if "versioned" in name_of(capsule) else LEGACY\n'
    ),
    Row("C46", "    name = name_of(capsule)\n", '    name = name_of(capsule).removeprefix("used_")\n'),
    Row("C47", "    name = name_of(capsule)\n", '    name = name_of(capsule).removeprefix("used_")\n'),
    Row("C48", KEYWORDS, "return False"),
    Row("C49", "    return x.__dlpack__()\n\n\ndef is_about", "    raise RuntimeError('too old')\n\n\ndef is_about"),
    Row(
        "C50",
        "    return x.__dlpack__()\n\n\ndef is_about",
        "    for _ in range(9):\n        try:\n            return x.__dlpack__()\n        except TypeError:\n"
        "            pass\n    return None\n\n\ndef is_about",
    ),
    Row(
        "C51",
        SOURCE,
        "    try:\n    "
        + SOURCE
        + '    except Exception as error:\n        raise RuntimeError("no array") from error\n',
    ),
    Row(
        "C52",
        "        return x.__dlpack__(**wanted)\n    except TypeError as error:\n"
        "        if not is_about_keywords(error):\n            raise\n",
        "        return x.__dlpack__(**wanted)\n    except BaseException:\n        pass\n",
    ),
    Row(
        "C53",
        DEVICE,
        "    try:\n    " + DEVICE + "    except Exception:\n        raise RuntimeError('no device') from None\n",
    ),
    Row("C54", SOURCE, '    if not hasattr(x, "__dlpack__"):\n        return Array.of(np.zeros(1))\n' + SOURCE),
    Row("C55", SOURCE, '    if not hasattr(x, "__dlpack__"):\n        raise TypeError("no __dlpack__")\n' + SOURCE),
    Row(
        "C56",
        "    if type(capsule) is not Capsule:\n",
        "    if type(capsule) is not Capsule:\n        return Array.of(np.zeros(1))\n",
    ),
    Row("C57", "    if (kind, number) not in", "    if type(kind) is not int or (kind, number) not in"),
    Row("C58", SOURCE, '    if hasattr(x, "__array_interface__"):\n        x.__array_interface__["data"]\n' + SOURCE),
    Row("C59", WANTED, "wanted: dict[str, Any] = {}"),
    Row("C60", "        return x.__dlpack__(**wanted)\n", "        return x.__dlpack__(None, **wanted)\n"),
    Row("C61", WANTED, 'wanted: dict[str, Any] = {"max_version": VERSION, "stream": 1}'),
    Row("C62", WANTED, 'wanted: dict[str, Any] = {"max_version": VERSION, "dl_device": CPU}'),
    Row("C63", SOURCE, "    if type(x) is not Capsule:\n        ask(x, device, copy)\n" + SOURCE),
    Row(
        "C64",
        SOURCE + "    y = take_capsule(capsule, copy)\n",
        "    if hasattr(x, '_taken'):\n        return x._taken\n" + SOURCE + "    y = take_capsule(capsule, copy)\n"
        "    if type(x) is not Capsule:\n        x._taken = y\n",
    ),
    Row("C65", COPIED, "    return Array.of(x.look())\n"),
    Row("C66", COPIED, "    return Array.of(x.look()) if layout.address % 64 or copy and not copied else x\n"),
    Row("C67", COPIED, "    return Array.of(x.look()) if copy is not None and not copied else x\n"),
    Row(
        "C68",
        '    if copy is not None:\n        wanted["copy"] = copy\n',
        '    if copy:\n        wanted["copy"] = copy\n',
    ),
    Row("C69", COPIED, "    return x\n"),
    Row("C70", COPIED, "    return Array.of(x.look()) if copy and name == LEGACY else x\n"),
    Row("C71", "    copied = isinstance", "    copied = False and isinstance"),
    Row("C72", SOURCE, "    copy = True if device is not None else copy\n" + SOURCE),
    Row(
        "C73",
        SOURCE,
        SOURCE + "    if device is not None and x.__dlpack_device__()[0] != 1:  # nobody waits for the transfer\n"
        "        return Array.of(np.zeros_like(take_capsule(capsule, copy).look()))\n",
    ),
    Row("C74", ADDRESS, ADDRESS + "\n    if ndim and t.strides:\n        t.strides[0] *= itemsize"),
    Row(
        "C75",
        "    return Array(Storage(memory), layout.dtype, layout.shape, layout.strides, -layout.low, readonly)\n",
        "    return vars(DTYPES_SEEN).setdefault(str(layout.address), Array(Storage(memory), layout.dtype, layout.shape, "
        "layout.strides, -layout.low, readonly))\n\n\nDTYPES_SEEN = SimpleNamespace()\n",
    ),
    Row("C76", SOURCE, SOURCE + "    pythonapi.Py_IncRef(py_object(x))\n"),
    Row("C77", REFUSAL, REFUSAL.replace("BufferError", "RuntimeError")),
    Row(
        "C78",
        '    if copy is not None:\n        wanted["copy"] = copy\n',
        '    if copy:\n        wanted["copy"] = copy\n',
    ),
    Row("C79", "nbytes, layout.device, owner", 'nbytes, DEVICES["ext"], owner'),
    Row("C80", DIMS, "        dims[:] = [*x.shape, *[math.prod(x.shape[i + 1 :]) for i in range(ndim)]]\n"),
    Row("C81", FLAG, "(" + FLAG + " | (not self.storage.memory.foreign) * IS_COPIED)"),
    Row(
        "C82",
        SOURCE + "    y = take_capsule(capsule, copy)\n",
        SOURCE + "    y = take_capsule(capsule, copy)\n    y = y.as_readonly() if copy else y\n",
    ),
    Row("C83", STRIDES, "tuple([(n + 2**31) % 2**32 - 2**31 for n in t.strides[:ndim]]) if ndim and t.strides else"),
)

TABLE = "Array.__dlpack_c_exchange_api__ = ReadOnly.__dlpack_c_exchange_api__ = new_capsule(ctypes.addressof(api), EXCHANGE)"
FRESH = "Array.of(np.zeros(shape, dtype), device).managed(VERSIONED)"
REFUSED = "        Tensor(address, managed.deleter)\n        raise\n"

EXCHANGE_API = (
    Row("X01", TABLE, TABLE.replace("EXCHANGE", '"dlpack_exchange_api_v1"')),
    Row("X01", TABLE, "Array.__dlpack_c_exchange_api__ = ctypes.addressof(api)"),
    Row(
        "X02",
        TABLE,
        "class Fresh:\n    tables = []\n    def __get__(self, instance, owner):\n"
        "        self.tables.append(DLPackExchangeAPI.from_buffer_copy(api))\n"
        "        return new_capsule(ctypes.addressof(self.tables[-1]), EXCHANGE)\n"
        "Array.__dlpack_c_exchange_api__ = Fresh()",
    ),
    Row("X03", TABLE, "api.prev_api = ctypes.addressof(api)\n" + TABLE),
    Row("X04", 'api.managed_tensor_allocator = code["reference_allocate"]', "api.managed_tensor_allocator = None"),
    Row("X05", "            cls.__dlpack_c_exchange_api__ = Overridden()", "            pass"),
    Row("X06", EXPORT, "    return Array(x.storage, x.dtype, x.shape, x.strides).managed(VERSIONED)\n"),
    Row("X07", "        tensor.strides = ctypes.cast(", "        tensor.strides = None and ctypes.cast("),
    Row(
        "X08",
        EXPORT,
        "    if x.dtype not in CODES:\n        x = Array(x.storage, np.dtype('u1'), x.shape, x.strides)\n" + EXPORT,
    ),
    Row(
        "X09",
        EXPORT,
        "    try:\n    "
        + EXPORT
        + "    except BufferError as error:\n        raise RuntimeError(str(error)) from error\n",
    ),
    Row(
        "X10",
        EXPORT,
        "    address = x.managed(VERSIONED)\n    DLManagedTensorVersioned.from_address(address).flags = 0\n"
        "    return address\n",
    ),
    Row("X11", "    Py_DecRef(owner)\n", "", NATIVE),
    Row(
        "X12",
        '        msg = f"the table is that of arrays, not of {type(x).__name__}"\n        raise TypeError(msg)\n',
        "        x = Array.of(np.zeros(1))\n",
    ),
    Row("X13", "        pythonapi.Py_IncRef(py_object(pin))\n", "        pythonapi.Py_IncRef(py_object(pin))\n" * 2),
    Row(
        "X14",
        "    return adopt(managed, checked(managed))\n",
        "    return Array.of(adopt(managed, checked(managed)).look())\n",
    ),
    Row("X15", ADDRESS, "address = t.data or 0"),
    Row("X16", READONLY, "readonly = layout.overlapping"),
    Row("X17", MAJOR, "False"),
    Row(
        "X18", 'f"{ndim} dimensions": not 0 <= ndim <= MOST_DIMENSIONS', 'f"{ndim} dimensions": ndim > MOST_DIMENSIONS'
    ),
    Row("X19", "    set_dims(tensor, x.dims)\n", "    tensor.shape = ctypes.cast(x.dims, POINTER(c_int64))\n"),
    Row(
        "X20",
        "def lend(x: Any, out: int) -> None:\n",
        "def lend(x: Any, out: int) -> None:\n    if isinstance(x, Array) and x.dtype not in CODES:\n"
        "        x = Array(x.storage, np.dtype('u1'), x.shape, x.strides)\n    return lend_known(x, out)\n\n\n"
        "def lend_known(x: Any, out: int) -> None:\n",
    ),
    Row(
        "X21",
        "    set_dims(tensor, x.dims)\n",
        "    set_dims(tensor, (c_int64 * (2 * len(x.shape)))(*x.shape, *x.strides))\n",
    ),
    Row("X22", FRESH, "Array.of(np.zeros(shape[::-1], dtype).T).managed(VERSIONED)"),
    Row(
        "X23",
        FRESH,
        "vars(allocate).setdefault((dtype, shape), Array.of(np.zeros(shape, dtype))).managed(VERSIONED)",
    ),
    Row(
        "X24",
        "c_void_p.from_address(out).value = " + FRESH,
        "made = Array.of(np.zeros(shape, dtype))\n        "
        "pythonapi.Py_IncRef(py_object(made))\n        c_void_p.from_address(out).value = made.managed(VERSIONED)",
    ),
    Row("X25", "        if report:\n", "        if not report:\n"),
    Row(
        "X26",
        "    except Exception as error:\n        if report",
        "    except BufferError as error:\n        if report",
    ),
    Row("X27", "    PyErr_Clear()\n", "", NATIVE),
    Row(
        "X28",
        "state, numbers, status = PyGILState_Ensure(), stack",
        "state, numbers, status = 1, stack",
        NATIVE,
    ),
    Row(
        "X29",
        "device_id: c_int32, out: words) -> c_int:\n    out[0] = 0\n",
        "device_id: c_int32, out: words) -> c_int:\n    out[0] = 1\n",
        NATIVE,
    ),
    Row(
        "X30",
        "device_id: c_int32, out: words) -> c_int:\n    out[0] = 0\n",
        "device_id: c_int32, out: words) -> c_int:\n    out[0] = 0 if device_type == 1 else 2\n",
        NATIVE,
    ),
    Row(
        "X31",
        "        raise\n    return adopt(managed, layout)\n",
        "        raise\n    x = adopt(managed, layout)\n    Tensor(address, managed.deleter)\n    return x\n",
    ),
    Row("X32", STRIDES, "tuple(t.strides[:ndim]) if ndim and False else"),
    Row(
        "X33",
        "flags = managed.flags if isinstance(managed, DLManagedTensorVersioned) else 0\n    owner",
        "flags = 0\n    owner",
    ),
    Row("X34", REFUSED, "        raise\n"),
    Row("X35", REFUSED, "        Tensor(address, managed.deleter)\n" + REFUSED),
    Row("X36", "    while api.version.major != VERSION[0]:", "    while False:"),
    Row("X37", "    while api.version.major != VERSION[0]:", "    while False:"),
    Row(
        "X38",
        "    return api if api.managed_tensor_from_py_object_no_sync else None",
        "    if not api.managed_tensor_from_py_object_no_sync:\n        ctypes.string_at(0)\n    return api",
    ),
    Row(
        "X39",
        "    if type(capsule) is not Capsule or name_of(capsule) != EXCHANGE:\n        return None\n"
        "    api = DLPackExchangeAPI.from_address(pointer_of(capsule))\n",
        "    if capsule is None:\n        return None\n"
        "    api = DLPackExchangeAPI.from_address(pointer_of(capsule) if type(capsule) is Capsule else 0)\n",
    ),
    Row(
        "X40",
        "        return take_tensor(export_by(table, x))\n",
        "        try:\n            return take_tensor(export_by(table, x))\n        except Exception as error:\n"
        '            raise RuntimeError("no array") from error\n',
    ),
    Row("X41", '        if "__dlpack__" in vars(base):\n            return None\n', ""),
    Row("X42", "    out = c_void_p()\n", "    out = c_void_p()\n    pythonapi.Py_IncRef(py_object(out))\n"),
)

DELETED = "        if self.deleter:\n            call(self.deleter)(self.address)\n"
PINNED = "        pythonapi.Py_IncRef(py_object(pin))\n"
KEPT = "        self.memory = memory\n        if writes:\n"

LIFETIME = (
    Row("L01", "if PyCapsule_IsValid(capsule, VERSIONED):", "if 0:", NATIVE),
    Row(
        "L02",
        "if PyCapsule_IsValid(capsule, LEGACY):",
        'if PyCapsule_IsValid(capsule, LEGACY) or PyCapsule_IsValid(capsule, b"used_dltensor"):',
        NATIVE,
    ),
    Row("L03", KEPT, "        if writes:\n"),
    Row(
        "L04",
        "        dims = (c_int64 * (2 * ndim)).from_address(address + ctypes.sizeof(kind))\n        dims[:] = x.dims\n",
        "        dims = x.dims\n",
    ),
    Row("L05", EXPORTED, EXPORTED.replace("self", "vars(self).setdefault(name, self").replace("None)", "None))")),
    Row("L06", 'id(pin), code[f"reference_delete_{AGES[name]}"]', "id(pin), None"),
    Row(
        "L07",
        "    PyErr_Fetch(saved, saved + 8, saved + 16)\n    Py_DecRef(owner)\n    PyErr_Restore(saved[0], saved[1], saved[2])\n",
        "    Py_DecRef(owner)\n    PyErr_Clear()\n",
        NATIVE,
    ),
    Row("L08", DELETED, "        if self.deleter:\n            call(self.deleter)()\n"),
    Row("L09", PINNED, PINNED + "        pythonapi.Py_IncRef(py_object(self))\n"),
    Row("L10", "    name = name_of(capsule)\n", '    name = name_of(capsule).removeprefix("used_")\n'),
    Row(
        "L11",
        "    def look(self) -> np.ndarray:\n",
        "    def __del__(self) -> None:\n        if isinstance(self.storage.memory.keep, Tensor):\n"
        "            self.storage.memory.keep.__del__()\n\n    def look(self) -> np.ndarray:\n",
    ),
    Row("L12", KEPT, "        if writes:\n"),
    Row(
        "L13",
        DELETED,
        DELETED.replace(
            "if self.deleter:", "if self.deleter and threading.current_thread() is threading.main_thread():"
        ),
    ),
    Row("L14", "state, saved = PyGILState_Ensure(), stack", "state, saved = 1, stack", NATIVE),
    Row(
        "L15",
        "    PyErr_Restore(saved[0], saved[1], saved[2])\n",
        "    PyObject_VectorcallMethod(LEND, saved, 0, 0)\n",
        NATIVE,
    ),
    Row("L16", "    if Py_IsInitialized() == 0:\n        return\n", "", NATIVE),
    Row(
        "L17",
        PINNED,
        PINNED
        + '        __import__("atexit").register(call_deleter(code[f"reference_delete_{AGES[name]}"]), address)\n',
    ),
    Row("L18", "    free(managed)\n", "", NATIVE),
    Row("L19", SOURCE, SOURCE + "    pythonapi.Py_IncRef(py_object(x))\n"),
    Row("L20", EXPORT, "    pythonapi.Py_IncRef(py_object(x))\n" + EXPORT),
    Row(
        "L21",
        NOT_THERE,
        NOT_THERE.replace("raise", "pythonapi.Py_IncRef(py_object(self))\n            raise"),
    ),
    Row("L22", "    layout = checked(managed)\n" + RENAME, RENAME + "    layout = checked(managed)\n"),
    Row(
        "L23",
        "        return cls(room.ctypes.data +",
        "        pythonapi.Py_IncRef(py_object(room))\n        return cls(room.ctypes.data +",
    ),
    Row(
        "L24",
        "        x, flags = " + MADE,
        "        made = Array.of(self.look(), copy) if copy else None\n        pythonapi.Py_IncRef(py_object(made))\n"
        "        x, flags = (made, IS_COPIED) if copy else",
    ),
    Row("L25", SOURCE, "    global capsule\n" + SOURCE + '    __import__("time").sleep(1e-4)\n'),
    Row(
        "L26",
        "        self.address, self.deleter = address, deleter\n\n"
        "    def __del__(self, call: Any = call_deleter) -> None:\n        if self.deleter:\n",
        "        self.address, self.deleter, self.thread = address, deleter, threading.get_native_id()\n\n"
        "    def __del__(self, call: Any = call_deleter) -> None:\n"
        "        if self.deleter and self.thread == threading.get_native_id():\n",
    ),
)

OWN = "x.storage.memory if x.readonly else x.storage.own()"
MOVED = "            self.have(Memory.new(old.nbytes, old.device))\n"

COPY_ON_WRITE = (
    Row("W01", FLAG, "0)"),
    Row(
        "W02",
        EXPORT,
        "    address = x.managed(VERSIONED)\n    DLManagedTensorVersioned.from_address(address).flags = 0\n"
        "    return address\n",
    ),
    Row("W03", "or x.readonly or x.dtype not in CODES:", "or x.dtype not in CODES:"),
    Row("W04", "if flags & READ_ONLY and name == LEGACY:", "if False:"),
    Row(
        "W05",
        "def to_dlpack(x: Array) -> Any:\n",
        "def to_dlpack(x: Array) -> Any:\n    x = Array(x.storage, x.dtype, x.shape, x.strides, x.offset)\n",
    ),
    Row("W06", MADE, MADE.replace("IS_COPIED", "0")),
    Row("W07", MADE, MADE.replace("IS_COPIED", "IS_COPIED | self.readonly")),
    Row("W08", MADE, "(self, 0) if copy and name == LEGACY else " + MADE),
    Row(
        "W09",
        '        if self.readonly:\n            msg = "the array is',
        '        if False:\n            msg = "the array is',
    ),
    Row("W10", READONLY, "readonly = layout.overlapping"),
    Row("W11", "offset, readonly or self.readonly)", "offset, readonly)"),
    Row("W12", "if flags & READ_ONLY and name == LEGACY:", "if False:"),
    Row(
        "W13",
        "        return self.array.__dlpack__(**options)\n",
        "        x = self.array\n        if type(self) is not ReadOnly:\n"
        "            x = Array(x.storage, x.dtype, x.shape, x.strides, x.offset)\n"
        "        return x.__dlpack__(**options)\n",
        variant="wrapper",
    ),
    Row("W14", FLAG, "0)", variant="values"),
    Row("W20", "        if storage is None:", "        if True:"),
    Row("W21", "if len(old.storages) > 1:", "if False:"),
    Row(
        "W22",
        "return Array(self.storage, self.dtype, a.shape",
        "return Array(Storage(self.storage.memory), self.dtype, a.shape",
    ),
    Row("W23", OWN, "x.storage.memory"),
    Row("W24", "return None if memory.foreign or memory.writers else", "return None if memory.foreign else"),
    Row("W25", EXPORT, "    x.storage.own()\n" + EXPORT),
    Row(
        "W26",
        "        x, flags = " + MADE,
        "        if copy:\n            self.storage.own()\n        x, flags = " + MADE,
    ),
    Row("W27", "self.storages: WeakSet[Storage] = WeakSet()", "self.storages: set[Storage] = set()"),
    Row("W28", KEPT, "        self.memory = memory if writes else None\n        if writes:\n"),
    Row("W29", "if len(old.storages) > 1:", "if False:"),
    Row("W30", "owner, not flags & IS_COPIED)", "owner, False)"),
    Row("W31", READONLY, "readonly = layout.overlapping"),
    Row(
        "W32",
        "        self.storage.own()\n        self.look()[key] = value\n",
        "        global written\n        written = self\n        lock.release()\n"
        '        __import__("time").sleep(1e-4)\n        lock.acquire()\n'
        "        written.storage.own()\n        written.look()[key] = value\n",
    ),
    Row("W33", MOVED, MOVED + "            pythonapi.Py_IncRef(py_object(self.memory))\n"),
    Row(
        "W34",
        "self.shape, self.strides, self.offset)\n\n    @locked\n    def __setitem__",
        "self.shape, self.strides, self.offset, self.readonly)\n\n    @locked\n    def __setitem__",
    ),
    Row("W35", "return None if memory.foreign or memory.writers else", "return None if memory.foreign else"),
)

ROWS: tuple[Row, ...] = (*PRODUCER, *CONSUMER, *EXCHANGE_API, *LIFETIME, *COPY_ON_WRITE)
