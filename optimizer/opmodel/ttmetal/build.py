"""Which build of ttnn is installed; also run as a file by another interpreter, so it imports nothing of ttopt."""

from __future__ import annotations

import hashlib
import importlib.metadata
import importlib.util
import sys
from pathlib import Path


def installed() -> tuple[str, str]:
    """Version of ttnn and a hash that tells its build. PackageNotFoundError without one.

    The hash is of what the installation says of its libraries. Of a build in a source tree, of which it says nothing,
    it is of their sizes and times.
    """
    found = importlib.metadata.distribution("ttnn")
    said = [line for line in (found.read_text("RECORD") or "").splitlines() if ".so," in line]
    return found.version, hashlib.sha256("\n".join(sorted(said or _libraries())).encode()).hexdigest()[:16]


def _libraries() -> list[str]:
    spec = importlib.util.find_spec("ttnn")
    folders = [] if spec is None else spec.submodule_search_locations or []
    paths = [path for folder in folders for path in Path(folder).rglob("*.so")]
    return [f"{path.name} {path.stat().st_size} {path.stat().st_mtime_ns}" for path in paths]


if __name__ == "__main__":
    sys.stdout.write(" ".join(installed()))
