"""LLVM as a witness: what it cannot assemble for a processor does not exist there.

Debian's LLVM 19 knows gfx942; gfx950 is known to the LLVM 22 in PyPI's `ziglang`, where somebody has installed that.
"""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

_TOOL = Path("/usr/lib/llvm-19/bin/llvm-mc")
LLVM_MC = str(_TOOL) if _TOOL.exists() else shutil.which("llvm-mc-19")
needs_ziglang = pytest.mark.skipif(
    importlib.util.find_spec("ziglang") is None, reason="LLVM 19 lacks gfx950 (pip install ziglang==0.17.0)"
)
needs_llvm = pytest.mark.skipif(LLVM_MC is None, reason="llvm-19 is not installed (apt-get install llvm-19)")


def assemble(lines: list[str]) -> str:
    """stderr of llvm-mc for gfx942; empty if everything was accepted."""
    assert LLVM_MC is not None
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-show-encoding"]
    return subprocess.run(command, input="\n".join(lines) + "\n", text=True, capture_output=True).stderr


def assemble_with_ziglang(lines: list[str], mcpu: str) -> str:
    """stderr of the assembler in `ziglang`; empty if everything was accepted."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "k.s")
        source.write_text("\n".join(lines) + "\n")
        command = [sys.executable, "-m", "ziglang", "clang", "-c", "-target", "amdgcn-amd-amdhsa", f"-mcpu={mcpu}"]
        made = subprocess.run([*command, source, "-o", Path(folder, "k.o")], text=True, capture_output=True)
        assert bool(made.returncode) == ("error" in made.stderr)
        return made.stderr
