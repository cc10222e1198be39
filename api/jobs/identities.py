"""Identifiers that nobody can guess, and hashes of what a result depends on."""

from __future__ import annotations

import hashlib
import json
import secrets
from functools import cache
from pathlib import Path
from typing import Any

import api
import optimizer

ID_BYTES = 16


def new_id() -> str:
    """32 hexadecimal digits."""
    return secrets.token_hex(ID_BYTES)


def digest_of(parts: Any) -> str:
    """SHA-256 of plain data."""
    return hashlib.sha256(json.dumps(parts, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def digest_of_file(descriptor: int) -> str:
    """SHA-256 of a file from its first byte to its last."""
    with open(descriptor, "rb", closefd=False) as file:
        file.seek(0)
        return hashlib.file_digest(file, "sha256").hexdigest()


@cache
def program_id() -> str:
    """Version of the program, and a digest of its code: an edited checkout does not answer with old results."""
    digest = hashlib.sha256(optimizer.__version__.encode())
    for package in (optimizer, api):
        folder = Path(str(package.__path__[0]))
        for path in sorted((*folder.rglob("*.py"), *folder.rglob("*.json"))):
            digest.update(path.relative_to(folder).as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return f"{optimizer.__version__}+{digest.hexdigest()[:16]}"
