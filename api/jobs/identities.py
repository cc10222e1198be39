"""Identifiers that nobody can guess, and hashes of what a result depends on."""

from __future__ import annotations

import hashlib
import json
import secrets
from typing import Any

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
