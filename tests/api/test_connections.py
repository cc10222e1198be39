"""Connections under a real server with small limits: slow, too many, not HTTP, with two lengths."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import pytest

from tests.api.test_server import wait_until_up

LIMITS = {
    "MAX_CONNECTIONS": "4",
    "MAX_PEER_CONNECTIONS": "3",
    "HEADER_SECONDS": "1",
    "STALL_SECONDS": "1",
    "IDLE_SECONDS": "1",
}
PATIENCE = 30.0
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        chosen: int = free.getsockname()[1]
    command = [sys.executable, "-m", "optimizer.cli", "serve", "--port", str(chosen), "--workers", "1"]
    environment = {**os.environ, **{f"TTOPT_{name}": value for name, value in LIMITS.items()}}
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        wait_until_up(f"http://127.0.0.1:{chosen}")
        yield chosen
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert "Traceback" not in log


def connected(port: int, address: str = "127.0.0.1") -> socket.socket:
    return socket.create_connection(("127.0.0.1", port), timeout=PATIENCE, source_address=(address, 0))


def all_said(connection: socket.socket) -> bytes:
    """What comes until the server closes."""
    said = b""
    while data := connection.recv(65536):
        said += data
    return said


def send_on(connection: socket.socket) -> None:
    """Send bytes of a body until the server has enough of it, at most for some time."""
    deadline = time.monotonic() + PATIENCE
    while time.monotonic() < deadline:
        connection.sendall(b"x" * 1000)
        time.sleep(0.02)


def ended(connection: socket.socket) -> bool:
    try:
        return not connection.recv(1)
    except ConnectionError:
        return True


def problem(said: bytes) -> dict[str, Any]:
    head, _, body = said.partition(b"\r\n\r\n")
    assert b"content-type: application/problem+json" in head.lower()
    document: dict[str, Any] = json.loads(body)
    assert int(head.split(b" ")[1]) == document["status"]
    return document


@pytest.mark.parametrize("head", [b"", b"GET /hea", b"GET /healthz HTTP/1.1\r\nX: "])
@pytest.mark.slow
def test_a_head_that_does_not_arrive_ends_the_connection(port: int, head: bytes) -> None:
    with connected(port) as connection:
        connection.sendall(head)
        assert problem(all_said(connection))["code"] == "too-slow"


def test_a_second_head_on_one_connection_has_its_time_too(port: int) -> None:
    with connected(port) as connection:
        connection.sendall(HEALTH)
        assert connection.recv(65536).startswith(b"HTTP/1.1 200")
        connection.sendall(b"GET /")
        assert problem(all_said(connection))["code"] == "too-slow"


def test_a_body_that_stalls_is_answered_and_the_connection_ends(port: int) -> None:
    with connected(port) as connection:
        connection.sendall(b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\nabc")
        assert problem(all_said(connection))["code"] == "too-slow"


def test_a_client_that_goes_on_after_its_refusal_is_cut_off(port: int) -> None:
    head = b"POST /v1/optimize?polcy=1 HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000000\r\n\r\n"
    with connected(port) as connection:
        connection.sendall(head)
        with pytest.raises(ConnectionError):
            send_on(connection)


def test_one_address_has_so_many_connections(port: int) -> None:
    with ExitStack() as stack:
        for _ in range(3):
            stack.enter_context(connected(port, "127.0.0.9"))
        one_more = stack.enter_context(connected(port, "127.0.0.9"))
        refused = all_said(one_more)
        assert b"retry-after" in refused.lower()
        assert problem(refused)["code"] == "busy"
        with connected(port, "127.0.0.10") as other:
            other.sendall(HEALTH)
            assert other.recv(100).startswith(b"HTTP/1.1 200")


def test_the_oldest_without_a_request_makes_room(port: int) -> None:
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(port, f"127.0.0.{20 + n}")) for n in range(4)]
        time.sleep(0.2)
        with connected(port) as other:
            other.sendall(HEALTH)
            assert other.recv(100).startswith(b"HTTP/1.1 200")
        assert ended(idle[0])


@pytest.mark.parametrize(
    "sent",
    [
        b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: -1\r\n\r\n",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        b"POST /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
def test_what_is_not_http_or_ambiguous_is_a_400_and_the_end(port: int, sent: bytes) -> None:
    with connected(port) as connection:
        connection.sendall(sent)
        assert problem(all_said(connection))["status"] == 400


def test_a_host_that_is_none_does_no_harm(port: int) -> None:
    with connected(port) as connection:
        connection.sendall(b"GET /nothing HTTP/1.1\r\nHost: [\r\nConnection: close\r\n\r\n")
        assert problem(all_said(connection))["code"] == "not-found"
