"""python -m tests.hostcuda [-m module | script.py] ...: a program, and the Pythons it starts, with the driver."""

from __future__ import annotations

import os
import sys

from tests.hostcuda import environment

os.execve(sys.executable, [sys.executable, *sys.argv[1:]], environment())
