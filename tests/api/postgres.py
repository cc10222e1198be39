"""A PostgreSQL of the tests' own, on loopback, from Debian's package."""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

PATIENCE_SECONDS = 60.0
OWNERS = ("postgres", "nobody")
"""Who it runs as where the tests run as root, which it refuses."""


def programs() -> Path | None:
    """The folder of PostgreSQL's programs, of the newest version; None: there is none."""
    folders = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda p: int(p.parent.name))
    on_path = shutil.which("initdb")
    if folders:
        return folders[-1]
    return None if on_path is None else Path(on_path).parent


@contextmanager
def running() -> Iterator[str]:
    """URL of an empty server; the test is skipped where none is installed."""
    found = programs()
    if found is None:
        pytest.skip("PostgreSQL is not installed (scripts/postgres.sh)")
    with tempfile.TemporaryDirectory() as folder, socket.socket() as free:
        data, identity = Path(folder) / "data", _identity()
        os.chmod(folder, 0o711)
        data.mkdir()
        if identity is not None:
            os.chown(data, identity.pw_uid, identity.pw_gid)
        who = {} if identity is None else {"user": identity.pw_uid, "group": identity.pw_gid}
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
        free.close()
        subprocess.run(
            [found / "initdb", "-D", data, "-U", "ttopt", "-A", "trust", "-E", "UTF8", "--no-sync"],
            check=True, capture_output=True, cwd="/", **who,
        )  # fmt: skip
        options = ["-c", "listen_addresses=127.0.0.1", "-p", str(port), "-k", str(data), "-c", "fsync=off"]
        quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": "/"}
        with subprocess.Popen([found / "postgres", "-D", data, *options], **quiet, **who) as server:
            try:
                _wait(found, port)
                yield f"postgresql://ttopt@127.0.0.1:{port}/postgres"
            finally:
                server.terminate()


def _identity() -> pwd.struct_passwd | None:
    if os.getuid() != 0:
        return None
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next(known[name] for name in OWNERS if name in known)


def _wait(found: Path, port: int) -> None:
    ends = time.monotonic() + PATIENCE_SECONDS
    while subprocess.run([found / "pg_isready", "-q", "-h", "127.0.0.1", "-p", str(port)], check=False).returncode:
        assert time.monotonic() < ends, "PostgreSQL does not come up"
        time.sleep(0.05)
