"""Memory of the service, and how others fare, while clients do not finish what they began.

    python benchmarks/service_load.py [--posts 50] [--megabytes 60] [--slow 500] [--seconds 40] [--tree DIR]

A real server gets posts of which the last bytes never come, sockets that send the head of a request a byte a second,
and sockets that send a body so; another client asks for `/healthz` and for a small plan meanwhile. `--tree` names the
checkout whose service is measured. The slow clients have several addresses of the loopback network, so that the cap
for one address does not spare the server its work.
"""

from __future__ import annotations

import argparse
import contextlib
import http.client
import os
import selectors
import signal
import socket
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
GRAPH = ROOT / "fixtures" / "graphs" / "mlp.json"
START_SECONDS = 120
ADDRESSES = 12
PIECE_BYTES = 1 << 20


@dataclass
class Client:
    """One connection that never ends its request by itself."""

    kind: str
    head: bytes
    body_bytes: int
    """Sent as fast as the server takes it; then a byte a second."""
    address: str
    socket: socket.socket | None = None
    sent: int = 0
    answer: bytes = b""
    ended: bool = False
    next_byte: float = 0.0


@dataclass
class Others:
    """What another client saw: seconds by request, and what was no 200."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: {"healthz": [], "optimize": []})
    failures: Counter[str] = field(default_factory=Counter)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--posts", type=int, default=50)
    parser.add_argument("--megabytes", type=int, default=60)
    parser.add_argument("--slow", type=int, default=500)
    parser.add_argument("--seconds", type=float, default=40.0)
    parser.add_argument("--tree", type=Path, default=ROOT)
    args = parser.parse_args()
    port = _free_port()
    environment = {**os.environ, "PYTHONPATH": str(args.tree), "TTOPT_ANSWER_CACHE": "off"}
    command = [sys.executable, "-m", "optimizer.cli", "serve", "--port", str(port), "--workers", "1"]
    server = subprocess.Popen(
        command, cwd=args.tree, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        _wait_until_up(port)
        _measure(server.pid, port, args)
    finally:
        server.send_signal(signal.SIGKILL)
        server.wait()
    return 0


def _measure(pid: int, port: int, args: argparse.Namespace) -> None:
    others, stop = Others(), threading.Event()
    asker = threading.Thread(target=_ask, args=(port, others, stop))
    _request(port, "optimize")
    rows = [("before", _resident_megabytes(pid))]
    clients = _clients(args)
    asker.start()
    peak = _attack(pid, port, clients, args.seconds)
    rows += [("most meanwhile", peak), ("at the end of it", _resident_megabytes(pid))]
    still_open = sum(c.socket is not None and not c.ended for c in clients)
    stop.set()
    asker.join()
    for client in clients:
        if client.socket is not None:
            client.socket.close()
    time.sleep(5)
    rows.append(("5 s after", _resident_megabytes(pid)))
    _request(port, "optimize")
    print(f"{args.posts} unfinished posts of {args.megabytes} MB and {args.slow} slow sockets for {args.seconds:g} s")
    for name, (main_process, workers) in rows:
        print(f"  memory {name:18} {main_process:7.0f} MB server, {workers:6.0f} MB worker")
    print(f"  connections still open at the end: {still_open} of {len(clients)}")
    print(f"  bytes sent: {sum(c.sent for c in clients) / 1e6:.0f} MB")
    for kind in ("post", "slow head", "slow body"):
        answers = Counter(_status(c) for c in clients if c.kind == kind)
        print(f"  {kind}: " + ", ".join(f"{count} x {status}" for status, count in answers.most_common()))
    for name, seconds in others.seconds.items():
        if seconds:
            middle, worst = statistics.median(seconds) * 1e3, max(seconds) * 1e3
            print(f"  {name}: {len(seconds)} answered, median {middle:.0f} ms, slowest {worst:.0f} ms")
    print(f"  not answered with 200: {dict(others.failures) or 'none'}")


def _clients(args: argparse.Namespace) -> list[Client]:
    size = args.megabytes * 1_000_000
    post = f"POST /v1/optimize HTTP/1.1\r\nHost: x\r\nContent-Length: {size}\r\n\r\n".encode()
    small = b"POST /v1/optimize HTTP/1.1\r\nHost: x\r\nContent-Length: 100000\r\n\r\n"
    found = [Client("post", post, size - 1000, "") for _ in range(args.posts)]
    for k in range(args.slow):
        found.append(Client("slow body", small, 0, "") if k % 2 else Client("slow head", b"", 0, ""))
    for k, client in enumerate(found):
        client.address = f"127.0.0.{2 + k % ADDRESSES}"
    return found


def _attack(pid: int, port: int, clients: list[Client], seconds: float) -> tuple[float, float]:
    """Drive all clients for a while; the most memory seen."""
    selector = selectors.DefaultSelector()
    piece = os.urandom(PIECE_BYTES)
    for client in clients:
        client.socket = socket.socket()
        client.socket.bind((client.address, 0))
        client.socket.settimeout(10)
        with contextlib.suppress(OSError):
            client.socket.connect(("127.0.0.1", port))
            client.socket.sendall(client.head)
        client.socket.setblocking(False)
        selector.register(client.socket, selectors.EVENT_READ, client)
    ends = time.monotonic() + seconds
    peak, looked = (0.0, 0.0), 0.0
    while (now := time.monotonic()) < ends:
        for client in clients:
            _push(client, piece, now)
        for key, _ in selector.select(0.01):
            if not _read(key.data):
                selector.unregister(key.fileobj)
        if now - looked > 0.2:
            looked, seen = now, _resident_megabytes(pid)
            peak = max(peak[0], seen[0]), max(peak[1], seen[1])
    selector.close()
    return peak


def _push(client: Client, piece: bytes, now: float) -> None:
    assert client.socket is not None
    if client.ended:
        return
    with contextlib.suppress(BlockingIOError, ConnectionError):
        if client.sent < client.body_bytes:
            client.sent += client.socket.send(piece[: client.body_bytes - client.sent])
        elif now >= client.next_byte:
            client.next_byte = now + 1.0
            client.sent += client.socket.send(b"G" if client.kind == "slow head" else b"x")


def _read(client: Client) -> bool:
    """Take what the server says; False once it has closed."""
    assert client.socket is not None
    try:
        data = client.socket.recv(65536)
    except BlockingIOError:
        return True
    except ConnectionError:
        data = b""
    client.answer += data
    client.ended = not data
    return bool(data)


def _status(client: Client) -> str:
    if client.answer:
        return client.answer.split(b" ", 2)[1].decode()
    return "closed" if client.ended else "no answer"


def _ask(port: int, others: Others, stop: threading.Event) -> None:
    while not stop.wait(0.25):
        for kind in others.seconds:
            began = time.monotonic()
            try:
                status = str(_request(port, kind))
            except (OSError, http.client.HTTPException) as error:
                status = type(error).__name__
            if status == "200":
                others.seconds[kind].append(time.monotonic() - began)
            else:
                others.failures[f"{kind} {status}"] += 1


def _request(port: int, kind: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    with contextlib.closing(connection):
        if kind == "healthz":
            connection.request("GET", "/healthz")
        else:
            connection.request("POST", "/v1/optimize?policy=dram", GRAPH.read_bytes())
        response = connection.getresponse()
        response.read()
        return response.status


def _resident_megabytes(pid: int) -> tuple[float, float]:
    """Of the server itself, and of the largest of its children."""
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split()
    return _resident(pid), max((_resident(int(child)) for child in children), default=0.0)


def _resident(pid: int) -> float:
    try:
        text = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
    except OSError:
        return 0.0  # it has just ended
    return next((int(line.split()[1]) / 1024 for line in text.splitlines() if line.startswith("VmRSS")), 0.0)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port: int = free.getsockname()[1]
        return port


def _wait_until_up(port: int) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        with contextlib.suppress(OSError):
            if _request(port, "healthz") == 200:
                return
        if time.monotonic() > deadline:
            raise SystemExit("the service does not come up")
        time.sleep(0.2)


if __name__ == "__main__":
    sys.exit(main())
