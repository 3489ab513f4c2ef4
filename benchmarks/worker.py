"""Measure one subject in this process, and print the times as JSON: what `benchmarks.harness.run` starts."""

from __future__ import annotations

import argparse
import sys

from benchmarks import harness

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("subject")
for name, value in harness.Settings()._asdict().items():
    parser.add_argument(f"--{name}", type=type(value), default=value)
options = vars(parser.parse_args())
suite = harness.measure(options.pop("subject"), harness.Settings(**options))
if suite is not None:
    suite.dump(sys.stdout)
