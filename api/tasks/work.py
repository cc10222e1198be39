"""What a task has to work with: the files of its bodies and its answer, the time, and somebody who watches."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, BinaryIO

from optimizer.pipeline import Progress, ProgressEvent
from optimizer.process.files import encoded

JSON_MEDIA_TYPE = "application/json"
SHOWN_CHARACTERS = 500
"""Of a line of progress."""
LINE_BYTES = 2048
"""Of one event; a pipe takes up to 4096 bytes in one piece."""


@dataclass(frozen=True)
class Done:
    """How a task ended; its answer lies in its file."""

    facts: Mapping[str, Any]
    """`media_type`, and what is worth telling of the result without reading it."""
    repeatable: bool = True
    """Whether the same task gives the same answer again."""


@dataclass
class Work:
    """One task under way in a solver process."""

    bodies: tuple[int, ...]
    answer: int
    progress: int
    soft_seconds: float
    began: float = field(default_factory=time.monotonic)

    def body(self, number: int = 0) -> bytes:
        """All bytes of a body."""
        with self.file(number) as file:
            return file.read()

    def file(self, number: int = 0) -> BinaryIO:
        """A body from its beginning."""
        os.lseek(self.bodies[number], 0, os.SEEK_SET)
        return open(self.bodies[number], "rb", closefd=False)

    def write(self, data: bytes) -> None:
        """Write the answer."""
        with open(self.answer, "wb", closefd=False) as file:
            file.write(data)

    def tell(self, kind: str, data: Mapping[str, Any]) -> None:
        """Let whoever watches know; nobody has to."""
        line = json.dumps({"kind": kind, "data": data}, separators=(",", ":")).encode() + b"\n"
        if len(line) <= LINE_BYTES:
            os.write(self.progress, line)

    def answer_json(self, record: Mapping[str, Any]) -> Done:
        """Write a record as the answer."""
        self.write(encoded(json.dumps(record, indent=1) + "\n"))
        return Done({"media_type": JSON_MEDIA_TYPE, "file_name": "answer.json"})

    def teller(self) -> Progress:
        """Passes the progress of a run on: `stage`, and `incumbent` where a search has a better plan or bound."""

        def tell(event: ProgressEvent) -> None:
            if event.search is not None:
                self.tell("incumbent", event.search.to_json())
                return
            fraction = round(event.index / max(event.count, 1), 4)
            self.tell("stage", {"stage": event.stage, "fraction": fraction, "detail": event.detail[:SHOWN_CHARACTERS]})

        return tell

    def spent_seconds(self) -> float:
        """Since the task began."""
        return time.monotonic() - self.began
