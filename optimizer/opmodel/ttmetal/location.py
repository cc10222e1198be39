"""Which ttnn answers: interpreter, version, kind of device - from `TTOPT_TTMETAL_*` and what is installed."""

from __future__ import annotations

import importlib.metadata
import os
import subprocess
import sys
from dataclasses import dataclass
from functools import cache

from optimizer.errors import OpModelError, OptionError
from optimizer.opmodel.ttmetal import build
from optimizer.process.extras import how_to_install

PYTHON_VARIABLE = "TTOPT_TTMETAL_PYTHON"
DEVICE_VARIABLE = "TTOPT_TTMETAL_DEVICE"
JOBS_VARIABLE = "TTOPT_TTMETAL_JOBS"
TIMEOUT_VARIABLE = "TTOPT_TTMETAL_TIMEOUT"
SOURCES = ("mock", "sim", "real")
DESCRIPTIONS = {"mock": "mock device", "sim": "simulated device", "real": "real device"}
HOW_TO_INSTALL = (
    f"{how_to_install('ttmetal')}, or name a Python that has it in the environment variable {PYTHON_VARIABLE}"
)
_PROBE_SECONDS = 60


@dataclass(frozen=True)
class Location:
    """An interpreter that has ttnn, and the kind of device to open."""

    python: str
    version: str
    """Version of ttnn."""
    build: str
    """Which of the builds of that version: a hash of what its installation says of its files."""
    source: str
    """One of `SOURCES`."""

    def describe(self) -> str:
        return f"ttnn {self.version} on a {DESCRIPTIONS[self.source]}"


def device_source() -> str:
    """`mock` unless `TTOPT_TTMETAL_DEVICE` says otherwise."""
    source = os.environ.get(DEVICE_VARIABLE) or "mock"
    if source not in SOURCES:
        raise OptionError(f"{DEVICE_VARIABLE} must be one of {', '.join(SOURCES)}, got {source!r}")
    return source


def find(source: str | None = None) -> Location:
    """The interpreter to use, for the device named or the environment's; OpModelError says how to get one."""
    source = source or device_source()
    other = os.environ.get(PYTHON_VARIABLE)
    if other:
        return Location(other, *_probed(other), source)
    try:
        return Location(sys.executable, *build.installed(), source)
    except importlib.metadata.PackageNotFoundError as error:
        raise OpModelError(f"the 'ttmetal' backend needs the package ttnn: {HOW_TO_INSTALL}") from error


@cache
def _probed(python: str) -> tuple[str, str]:
    """Version and build of the ttnn under another interpreter."""
    command = [python, "-I", build.__file__]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_PROBE_SECONDS, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise OpModelError(f"{PYTHON_VARIABLE}={python} cannot be run: {error}") from error
    words = done.stdout.split()
    if done.returncode != 0 or len(words) != 2:
        last = done.stderr.strip().rpartition("\n")[2]
        raise OpModelError(f"{PYTHON_VARIABLE}={python} has no usable ttnn: {last}")
    return words[0], words[1]


def whole_number(name: str, default: int) -> int:
    """A positive whole number from the environment."""
    text = os.environ.get(name)
    if not text:
        return default
    if not text.isascii() or not text.isdigit() or int(text) < 1:
        raise OptionError(f"{name} must be a whole number of at least 1, got {text!r}")
    return int(text)
