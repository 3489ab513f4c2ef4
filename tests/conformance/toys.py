"""Libraries and checks for the tests of what runs checks: each outcome there is, and each way for a process to end."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time

import numpy as np

from nbdlpack.conformance import Adapter, Check, NotAvailable, Severity
from nbdlpack.conformance.registry import Failure, NotApplicable, Refused


class Toy(Adapter):
    """NumPy, by another name."""

    name = "toy"
    module = "numpy"
    distribution = "numpy"

    def read_only(self, x):
        view = x.view()
        view.flags.writeable = False
        return view


class Unforkable(Toy):
    """One that must not be forked."""

    name = "unforkable"
    fork = False


class Missing(Toy):
    """One that cannot be imported."""

    name = "missing"

    def load(self):
        raise ImportError("libtoy.so.3: cannot open\nshared object file")


class Absent(Toy):
    name = "absent"

    def load(self):
        self.lacks("GPU here")


class Deadly(Toy):
    """One that does not survive its own import."""

    name = "deadly"

    def load(self):
        os.write(2, b"illegal hardware\n")
        os.kill(os.getpid(), signal.SIGILL)


class Frozen(Toy):
    """Arrays that nothing can be written to, and that export nothing but copies."""

    name = "frozen"
    immutable = True

    def write(self, x, value):
        raise TypeError("arrays are frozen")

    def from_dlpack(self, x, **options):
        return np.from_dlpack(x).copy()


class Stale(Toy):
    """Shows what it has once shown."""

    name = "stale"

    def load(self):
        super().load()
        self.shown = {}

    def to_numpy(self, x):
        return self.shown.setdefault(x.ctypes.data, x.copy())


class Copying(Toy):
    """Copies what it imports."""

    name = "copying"

    def from_dlpack(self, x, **options):
        return np.from_dlpack(x).copy()


class Quiet(Toy):
    """Imports, and exports nothing."""

    name = "quiet"
    producer = False


class Secret(Toy):
    """Takes arrays and does not give them away."""

    name = "secret"

    def to_numpy(self, x):
        raise BufferError("no")


class Viewless(Toy):
    """Has copies where others have views."""

    name = "viewless"

    def view(self, x, key):
        self.lacks("views")

    def transpose(self, x):
        return x.no_such_thing

    def broadcast(self, x, shape):
        return np.broadcast_to(x, shape).copy()


class Mixed(Toy):
    """Gives what is of one type another one."""

    name = "mixed"

    def from_dlpack(self, x, **options):
        return np.from_dlpack(x).view(np.int32)


class Broken(Toy):
    """Exports no capsules."""

    name = "broken"

    def from_numpy(self, a):
        return Nothing()


class Nothing:
    def __dlpack__(self, **asked):
        return 3

    def __dlpack_device__(self):
        return 1, 0


class Wrong(Toy):
    """Reads everything back to front, refuses bool, and aborts at negative strides."""

    name = "wrong"

    def from_dlpack(self, x, **options):
        y = np.from_dlpack(x)
        if y.dtype == bool:
            raise BufferError("no bool")
        if any(n < 0 for n in y.strides):
            os.write(2, b"stride must be positive\n")
            os.abort()
        return y[::-1] if y.ndim else y


TOYS = {
    kind.name: kind
    for kind in (
        Toy,
        Unforkable,
        Missing,
        Absent,
        Deadly,
        Frozen,
        Stale,
        Copying,
        Quiet,
        Viewless,
        Mixed,
        Broken,
        Wrong,
    )
}


def passes(lib):
    pass


def says(lib):
    return "shared"


def fails(lib):
    raise Failure("strides are NULL, but must be there for ndim > 0")


def refuses(lib):
    raise Refused("BufferError: not <that>")


def is_not_applicable(lib):
    raise NotApplicable("there are no lazy copies")


def is_not_available(lib):
    raise NotAvailable("toy has no such thing")


def raises(lib):
    return {}["key"]


def leaves(lib):
    sys.exit(3)


def prints(lib):
    print("noise on stdout")
    os.write(1, b'{"outcome": "fail", "reason": "a line that looks like an answer"}\n')
    os.write(2, b"noise on stderr\n")
    raise Failure("it was loud")


def segfaults(lib):
    os.write(2, b"about to read null\n")
    ctypes.string_at(0)


def aborts(lib):
    os.write(2, b"terminate called\n  what():  stride must be positive\nframe #0: somewhere\n")
    os.abort()


def exits(lib):
    os._exit(3)


def hangs(lib):
    time.sleep(1000)


def hangs_in_c(lib):
    """Wait for ever, with the GIL held."""
    ctypes.PyDLL(None).pause()


def talks(lib):
    raise Failure("It begins. " + "It is a long story. " * 1000 + "It ends.")


def starts(lib):
    """Leave a process behind that outlives the check."""
    started = subprocess.Popen(["sleep", "1000"])
    return str(started.pid)


def remembers(lib):
    """Say how many checks ran in this very process, this one included."""
    lib.adapter.count = getattr(lib.adapter, "count", 0) + 1
    return str(lib.adapter.count)


def who(lib):
    """Say which process this is."""
    return str(os.getpid())


def environment(lib):
    return repr((sys.stdin.read(), os.environ["OMP_NUM_THREADS"], lib.array([1.5]).tolist()))


def make(function, number=1, family="P", *, crashes=False, severity=Severity.WRONG):
    """Return a check of a function; its id is not one of the kit's."""
    statement = f"the array {function.__name__.replace('_', ' ')}"
    return Check(f"{family}9{number:02}", statement, "dlpack.h 1.3, DLTensor", severity, function, crashes)


def make_all(*functions, crashes=False):
    return [make(function, number, crashes=crashes) for number, function in enumerate(functions)]


class Mistaken(Toy):
    """An adapter with a mistake of its own."""

    name = "mistaken"

    def from_numpy(self, a):
        msg = "it has no such argument"
        raise TypeError(msg)


class Nameless(Adapter):
    """An adapter that says nothing."""
