"""Viewers in environments of their own, their servers, and what a check says."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

START_SECONDS = 120.0


class Checks:
    """Says a line for everything that is checked."""

    def __init__(self) -> None:
        self.failed = 0

    def equal(self, what: str, found: object, wanted: object) -> None:
        """Both are shown where they differ."""
        if found == wanted:
            print(f"  ok      {what}", flush=True)
            return
        self.failed += 1
        print(f"  FAILED  {what}\n          found  {_short(found)}\n          wanted {_short(wanted)}", flush=True)

    def none(self, what: str, found: Sequence[object]) -> None:
        """Nothing was found that should not be."""
        self.equal(what, list(found[:3]), [])


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 600 else f"{text[:600]}... ({len(text)} characters)"


def environment(folder: Path, distribution: str, version: str) -> Path:
    """The `bin` of an environment that holds this distribution, made where it is missing."""
    place = folder / distribution / "bin"
    if not (place / "pip").exists():
        subprocess.run(["python3", "-m", "venv", folder / distribution], check=True)
    wanted = f"{distribution}=={version}"
    if subprocess.run([place / "pip", "freeze"], check=True, capture_output=True, text=True).stdout.find(wanted) < 0:
        subprocess.run([place / "pip", "install", "--quiet", wanted], check=True)
    return place


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


@contextmanager
def server(command: Sequence[object], health: str, log: Path, settings: Mapping[str, str]) -> Iterator[None]:
    """A server that answers at this URL until the block ends."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=output, stderr=output, env={**os.environ, **settings}
        )
    try:
        ends = time.monotonic() + START_SECONDS
        while True:
            with suppress(urllib.error.URLError, OSError):
                content(health)
                break
            if process.poll() is not None or time.monotonic() > ends:
                raise TimeoutError(f"{command[0]} does not answer: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.3)
        yield
    finally:
        process.terminate()
        process.wait(30)


def content(url: str, body: object = None) -> bytes:
    """What a server answers; with a body it is posted as JSON. HTTPError for another status than 2xx."""
    headers = {} if body is None else {"Content-Type": "application/json"}
    data = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=120) as answer:
        found: bytes = answer.read()
        return found


def answered(url: str, body: object = None) -> Any:
    return json.loads(content(url, body))
