"""The child's end of its two pipes: standard library only, loaded by its path."""

from __future__ import annotations

import json
import os
import struct
from typing import Any

Message = dict[str, Any]


class Pipe:
    """Length-prefixed JSON over two file descriptors."""

    def __init__(self, source: int, target: int) -> None:
        self.source = os.fdopen(source, "rb", buffering=1 << 16)
        self.target = os.fdopen(target, "wb", buffering=1 << 16)

    def receive(self) -> Message | None:
        """The next request; None once the parent has gone."""
        head = self.source.read(4)
        if len(head) < 4:
            return None
        (length,) = struct.unpack(">I", head)
        body = self.source.read(length)
        return json.loads(body) if len(body) == length else None

    def send(self, message: Message) -> None:
        body = json.dumps(message, separators=(",", ":")).encode()
        self.target.write(struct.pack(">I", len(body)) + body)
        self.target.flush()
