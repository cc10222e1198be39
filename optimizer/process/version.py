"""Which program this is: its version, and a digest of its code.

What a result is kept under contains it, so that an edited checkout never answers with what another one made.
"""

from __future__ import annotations

import hashlib
from functools import cache
from pathlib import Path
from types import ModuleType

__version__ = "0.1.0"
PARTS = ("*.py", "*.json", "*.hpp")
"""Files of a package that its answers depend on."""


@cache
def program_id(*others: ModuleType) -> str:
    """`__version__+DIGEST` of this package, and of other packages that take part."""
    digest = hashlib.sha256(__version__.encode())
    ours = Path(__file__).resolve().parent.parent
    for folder in (ours, *(Path(str(package.__path__[0])) for package in others)):
        for path in sorted(path for part in PARTS for path in folder.rglob(part)):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{__version__}+{digest.hexdigest()[:16]}"
