"""A real server with small limits, and whether what it answers to a scripted connection is what it documents."""

from __future__ import annotations

import atexit
import contextlib
import http.client
import json
import os
import random
import select
import signal
import socket
import subprocess
import sys
import tempfile
import time

from fuzzing.harness import Case
from fuzzing.http_requests import MAKERS, RESULTS, ROOT, Record
from fuzzing.plan_corruptions import plan

LIMITS = {
    "WORKERS": "1",
    "QUEUE_LIMIT": "64",
    "MAX_BODY_BYTES": "150000",
    "MAX_NODES": "40",
    "REQUEST_SECONDS": "90",
    "HEADER_SECONDS": "1",
    "BODY_SECONDS": "5",
    "STALL_SECONDS": "1",
    "MIN_BODY_RATE": "100",
    "IDLE_SECONDS": "1",
}
START_SECONDS = 120.0
ANSWER_SECONDS = 110.0
"""Most of it is what a new worker needs on a busy machine, after a client has left another."""
HEALTH_SECONDS = 5.0
MORE_ANSWERS_SECONDS = 0.02
"""How long a second answer on the same connection is waited for."""
MEMBERS = {"type": str, "title": str, "status": int, "detail": str, "instance": str, "code": str}


class Misbehaved(Exception):
    """The server did what it may not do."""


class HttpTarget:
    """A server, started with the object and ended with the process."""

    name = "http"
    seconds = 120.0
    memory_bytes = 2 << 30

    def __init__(self) -> None:
        for name in RESULTS:  # solved once, before workers are forked
            plan(name)
        self._pid = os.getpid()
        self._port = _free_port()
        self._folder = tempfile.TemporaryDirectory(prefix="ttopt-requests-")
        store = f"sqlite:///{self._folder.name}/jobs.sqlite"
        settings = {f"TTOPT_{name}": value for name, value in LIMITS.items()}
        command = [sys.executable, "-m", "optimizer.cli", "serve", "--port", str(self._port)]
        self._server = subprocess.Popen(
            command,
            cwd=ROOT,
            env={**os.environ, **settings, "TTOPT_ANSWER_CACHE": "off", "TTOPT_STORE": store},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        atexit.register(self.close)
        self._wait_until_up()

    def close(self) -> None:
        """End the server; in a process forked from the one that started it, do nothing."""
        if os.getpid() == self._pid:
            self._server.send_signal(signal.SIGTERM)
            self._server.wait(timeout=60)
            self._folder.cleanup()

    def case(self, rng: random.Random) -> Case:
        name, make = rng.choice(MAKERS)
        return Case(name, json.dumps(make(rng)).encode())

    def run(self, payload: bytes) -> str:
        """The statuses of the answers, or how the connection ended without one; Misbehaved tells what is wrong."""
        script = json.loads(payload)
        outcome = self._played(script)
        self._check_health()
        return outcome

    # -- one connection ----------------------------------------------------------------------------------------
    def _played(self, script: Record) -> str:
        with socket.create_connection(("127.0.0.1", self._port), timeout=ANSWER_SECONDS) as connection:
            # The server may have answered and closed before everything is sent.
            with contextlib.suppress(ConnectionError):
                for milliseconds, text in script["parts"]:
                    time.sleep(milliseconds / 1000)
                    connection.sendall(text.encode("latin-1"))
                if script["end"] == "half":
                    connection.shutdown(socket.SHUT_WR)
            if script["end"] == "leave":
                return "left"
            return _answers(connection, script["head"])

    def _check_health(self) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=HEALTH_SECONDS)
        with contextlib.closing(connection):
            try:
                connection.request("GET", "/healthz")
                status = connection.getresponse().status
            except OSError as error:
                raise Misbehaved(f"/healthz: {error!r}") from error
        if status != 200:
            raise Misbehaved(f"/healthz answers {status}")

    def _wait_until_up(self) -> None:
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                return self._check_health()
            except Misbehaved:
                if time.monotonic() > deadline or self._server.poll() is not None:
                    raise
                time.sleep(0.1)


def _answers(connection: socket.socket, head: bool) -> str:
    """Check every answer on a connection; their statuses."""
    statuses: list[str] = []
    while not statuses or select.select([connection], [], [], MORE_ANSWERS_SECONDS)[0]:
        response = http.client.HTTPResponse(connection, method="HEAD" if head else "GET")
        try:
            response.begin()
            body = response.read()
        except TimeoutError as error:
            raise Misbehaved("no answer, and the connection stays open") from error
        except (http.client.BadStatusLine, ConnectionError):
            return " ".join(statuses) or "closed"
        _check(response, body, head)
        statuses.append(str(response.status))
        if response.will_close:
            break
    return " ".join(statuses)


def _check(response: http.client.HTTPResponse, body: bytes, head: bool) -> None:
    """Misbehaved unless the answer is one that the service documents."""
    status = response.status
    if status >= 500:
        raise Misbehaved(f"status {status}: {body[:2000]!r}")
    if head or status < 400:
        return
    if response.getheader("content-type") != "application/problem+json":
        raise Misbehaved(f"status {status} as {response.getheader('content-type')}: {body[:500]!r}")
    problem = json.loads(body.decode("utf-8"))
    json.dumps(problem, ensure_ascii=False).encode("utf-8")  # no halves of surrogate pairs
    for name, kind in MEMBERS.items():
        if not isinstance(problem.get(name), kind):
            raise Misbehaved(f"status {status}: '{name}' is {problem.get(name)!r}")
    if problem["status"] != status:
        raise Misbehaved(f"status {status}, but the document says {problem['status']}")


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port
