"""LLVM as a witness: what Debian's LLVM 19 cannot assemble for gfx942 does not exist there."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

_TOOL = Path("/usr/lib/llvm-19/bin/llvm-mc")
LLVM_MC = str(_TOOL) if _TOOL.exists() else shutil.which("llvm-mc-19")
needs_llvm = pytest.mark.skipif(LLVM_MC is None, reason="llvm-19 is not installed (apt-get install llvm-19)")


def assemble(lines: list[str]) -> str:
    """stderr of llvm-mc for gfx942; empty if everything was accepted."""
    assert LLVM_MC is not None
    command = [LLVM_MC, "-triple=amdgcn-amd-amdhsa", "-mcpu=gfx942", "-show-encoding"]
    return subprocess.run(command, input="\n".join(lines) + "\n", text=True, capture_output=True).stderr
