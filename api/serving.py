"""The service on a port: the application behind uvicorn, with the limits of connections; and its workers."""

from __future__ import annotations

import gc
import ipaddress
import os
import resource
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

import uvicorn

from api.access import KeyStore
from api.app import create_app
from api.connections import GuardedProtocol
from api.jobs.database import Database
from api.jobs.desk import Desk
from api.settings import PREFIX, Settings
from api.workers.program import WorkerProgram, new_name
from optimizer.errors import OptionError
from optimizer.process import logs

KEYS = PREFIX + "KEYS"
HEAD_BYTES = 64 * 1024
"""Of a request's head that has not arrived whole."""
OTHER_DESCRIPTORS = 256
"""Of libraries, logs, modules and the store."""
CLOSING_SECONDS = 10
"""For answers under way once the service is to end."""


def settings(workers: int | None = None, store: str | None = None) -> Settings:
    """Settings of the environment; what is given here counts more. OptionError names what is wrong."""
    given = {"WORKERS": workers, "STORE": store}
    stated = {PREFIX + name: str(value) for name, value in given.items() if value is not None}
    return Settings.from_environment({**os.environ, **stated})


def serve(host: str, port: int, chosen: Settings) -> None:
    """Serve until a signal ends it; jobs under way get the time to end that the settings give them.

    OptionError if that would open the service to other machines without anybody having said so; OptionError or
    StoreError if the store cannot be used.
    """
    app = create_app(chosen)
    database: Database = app.state.desk.database
    database.migrate()
    if opens_to_strangers(host, chosen, database):
        raise OptionError(
            "there are no API keys, so that the service is for this machine alone, and others would reach this address",
            node="--host",
            alternatives=("127.0.0.1", "ttopt keys add NAME", f"{KEYS}=always", f"{KEYS}=never, which lets in anybody"),
        )
    config = uvicorn.Config(
        app,
        host=host,
        port=port,
        log_level="info",
        # Where our own log tells of every request, uvicorn need not.
        access_log=not logs.room("service").tells_info,
        http=GuardedProtocol,
        ws="none",
        # By itself uvicorn believes whoever comes from this machine; the application asks those the operator names.
        proxy_headers=False,
        h11_max_incomplete_event_size=HEAD_BYTES,
        loop="asyncio",
        server_header=False,
        timeout_keep_alive=chosen.idle_seconds,  # type: ignore[arg-type]
        timeout_graceful_shutdown=CLOSING_SECONDS,
    )
    _allow_descriptors(chosen)
    # What is loaded by now stays: to look through all of it again takes a tenth of a second for which all wait.
    gc.collect()
    gc.freeze()
    _Server(config, app.state.desk).run()


def opens_to_strangers(host: str, chosen: Settings, database: Database) -> bool:
    """Whether other machines would reach a service for which nobody has made a key, nor said that it is so meant."""
    return chosen.keys == "auto" and not is_loopback(host) and not KeyStore(database).all()


def is_loopback(host: str) -> bool:
    """Whether nobody but this machine reaches a server that listens on this address or name."""
    found = socket.getaddrinfo(host or "0.0.0.0", None, type=socket.SOCK_STREAM)
    return all(ipaddress.ip_address(str(address[0])).is_loopback for *_, address in found)


def work(chosen: Settings) -> None:
    """Work on the jobs of a store until a signal ends it. OptionError without a process to do so."""
    if not chosen.workers:
        raise OptionError("a worker needs at least one solver process", node=PREFIX + "WORKERS", limit=1)
    WorkerProgram(chosen, new_name(), supervised=False).run()


@contextmanager
def key_store(store: str | None) -> Iterator[KeyStore]:
    """The API keys of a store, which is made if there is none."""
    database = Database(settings(store=store).store_url)
    try:
        database.migrate()
        yield KeyStore(database)
    finally:
        database.close()


class _Server(uvicorn.Server):
    """Tells the desk of a signal at once, so that whoever waits for a job is answered before the service ends."""

    def __init__(self, config: uvicorn.Config, desk: Desk) -> None:
        super().__init__(config)
        self._desk = desk

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        self._desk.is_draining = True
        super().handle_exit(sig, frame)


def _allow_descriptors(chosen: Settings) -> None:
    """Raise this process's limit of open files to what the settings can need, as far as it may be raised."""
    needed = chosen.max_connections + 3 * chosen.max_uploads + OTHER_DESCRIPTORS
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != resource.RLIM_INFINITY and soft < needed:
        most = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
