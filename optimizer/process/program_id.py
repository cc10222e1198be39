"""Which program this is: its version, and a digest of its code.

What a result is kept under contains it, so that an edited checkout never answers with what another one made.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import ModuleType

import optimizer

PARTS = ("*.py", "*.json")
"""Files of a package that its answers depend on."""


@cache
def program_id(*others: ModuleType) -> str:
    """`VERSION+DIGEST` of this package, and of other packages that take part."""
    digest = hashlib.sha256(optimizer.__version__.encode())
    for package in (optimizer, *others):
        folder = Path(str(package.__path__[0]))
        for path in sorted(path for part in PARTS for path in folder.rglob(part)):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{optimizer.__version__}+{digest.hexdigest()[:16]}"
