"""The assembler of LLVM 22, which PyPI's `ziglang` brings along: it knows gfx950, which Debian's LLVM 19 does not.

There is no disassembler with it: that a text is encoded as it reads is what `llvm` sees, for gfx942.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path


def refused(text: str, mcpu: str) -> str:
    """What the assembler says to a source file; empty if it makes an object of it without a word."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "k.s")
        source.write_text(text, encoding="utf-8")
        command = [sys.executable, "-m", "ziglang", "clang", "-c", "-target", "amdgcn-amd-amdhsa", f"-mcpu={mcpu}"]
        made = subprocess.run(
            [*command, str(source), "-o", str(Path(folder, "k.o"))], text=True, capture_output=True, check=False
        )
        return made.stderr or ("" if made.returncode == 0 else f"the assembler ended with {made.returncode}")
