"""The service under input that means harm: mutated bodies, bodies of 2 GB, zip bombs, deep JSON, slow senders.

    python benchmarks/service_attacks.py bodies [--cases 20000 --seed 1 --clients 4]
    python benchmarks/service_attacks.py hostile
    python benchmarks/service_attacks.py schema [--examples 100 --seed 1]

`bodies` posts mutated ONNX models and JSON graphs (benchmarks/fuzzing) and reads every answer: no status from 500 on
that tells of no time limit, no traceback in an answer or the log, no lost process that no answer tells of, memory
that does not grow. `hostile` sends what is to be refused before it costs anything, and says what it did cost. `schema`
has schemathesis put requests of every kind that `/openapi.json` describes, and such as it forbids.
"""

from __future__ import annotations

import argparse
import gzip
import http.client
import io
import json
import random
import socket
import subprocess
import sys
import tempfile
import threading
import time
import zipfile
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

from fuzzing.json_graphs import JsonTarget
from fuzzing.onnx_models import OnnxTarget
from service_process import Service, percentile

ALLOWED_5XX = {"time-limit"}
"""Codes from 500 on that are answers: this model takes longer than the service gives it."""
LIMITS = {"TTOPT_REQUEST_SECONDS": "20", "TTOPT_WORKER_MEMORY_BYTES": str(2 << 30), "TTOPT_MAX_NODES": "2000"}
MEASURE_SECONDS = 1.0
SCHEMATHESIS = Path(__file__).resolve().parent.parent / "tests" / "api" / "schemathesis.toml"
SHOWN = 10
GIB = 1 << 30


def bodies(args: argparse.Namespace) -> int:
    outcomes: Counter[str] = Counter()
    faults: list[str] = []
    seconds: list[float] = []
    lock = threading.Lock()
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), 2, settings=LIMITS) as service:
        stop = threading.Event()
        watcher = threading.Thread(target=watch, args=(service, stop))
        watcher.start()

        def client(number: int) -> None:
            targets = (OnnxTarget(), JsonTarget())
            for case in range(number, args.cases, args.clients):
                rng = random.Random(f"{args.seed}/{case}")
                kind = targets[case % 2]
                made = kind.case(rng)
                began = time.monotonic()
                status, code, text = post(service, made.payload, kind.name, rng)
                with lock:
                    seconds.append(time.monotonic() - began)
                    outcomes[f"{status} {code}".strip()] += 1
                    if (status >= 500 and code not in ALLOWED_5XX) or "Traceback" in text or "/tmp/" in text:
                        faults.append(f"case {case} ({kind.name}: {made.name}): {status} {text[:300]}")

        began = time.monotonic()
        with ThreadPoolExecutor(args.clients) as clients:
            list(clients.map(client, range(args.clients)))
        took = time.monotonic() - began
        stop.set()
        watcher.join()
        lost = int(service.metric("ttopt_worker_restarts_total"))
        peak, log = dict(service.peak_bytes), service.log_text()
    if "Traceback" in log:
        faults.append("a traceback in the log: " + log[log.index("Traceback") :][:1500])
    told = sum(count for outcome, count in outcomes.items() if "parked" in outcome or "too-large" in outcome)
    print(
        f"{sum(outcomes.values())} bodies in {took:.0f} s: " + ", ".join(f"{k} x{n}" for k, n in outcomes.most_common())
    )
    print(f"p50 {1000 * percentile(seconds, 50):.0f} ms, p99 {percentile(seconds, 99):.1f} s")
    print(f"processes lost: {lost}, answers that tell of a limit of memory: {told}")
    print("peak memory: " + ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in peak.items()))
    for text in faults[:SHOWN]:
        print(text, file=sys.stderr)
    return int(bool(faults))


def post(service: Service, body: bytes, kind: str, rng: random.Random) -> tuple[int, str, str]:
    """Status, code and text of the answer."""
    media = "application/json" if kind == "json" else "application/octet-stream"
    policy = rng.choice(("dram", "dfsharding", "dfsharding2", "global"))
    query = "" if kind == "json" else f"?policy={policy}"
    with service.connection() as connection:
        connection.request("POST", f"/v1/optimize{query}", body, {"Content-Type": media})
        response = connection.getresponse()
        text = response.read().decode("utf-8", "replace")
    code = "" if response.status < 300 else json.loads(text)["code"]
    return response.status, code, "" if response.status == 200 else text


def watch(service: Service, stop: threading.Event) -> None:
    while not stop.wait(MEASURE_SECONDS):
        service.measure()


def hostile(_args: argparse.Namespace) -> int:
    faults = 0
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), 1) as service:
        service.measure()
        before = dict(service.peak_bytes)
        for name, attack, wanted in (
            ("a body of 2 GB, announced", announced, {413}),
            ("a body of 2 GB in chunks", chunked, {413, 0}),
            ("gzip of 1 GB of zeros as the encoding", gzipped, {415}),
            ("a zip bomb as the model", zipped, {400}),
            ("100,000 levels of JSON", deep, {400}),
            ("100,000 levels of JSON, a document", deep_document, {400}),
            ("a head, a byte a second", slow_head, {408, 0}),
            ("a body, a byte a second", slow_body, {408}),
        ):
            began = time.monotonic()
            status, text = attack(service)
            took = time.monotonic() - began
            service.measure()
            good = status in wanted and "Traceback" not in text
            faults += not good
            print(f"{'ok ' if good else 'BAD'} {name}: {status or 'connection ended'} in {took:.2f} s {text[:100]}")
        grown = service.peak_bytes["server"] - before["server"]
        lost = service.metric("ttopt_worker_restarts_total")
        print(f"server memory grew by {grown / 2**20:.0f} MiB; lost processes {lost:.0f}")
        faults += grown > 200 << 20
    return int(bool(faults))


def sent(service: Service, body: bytes, **headers: str) -> tuple[int, str]:
    with service.connection() as connection:
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request("POST", "/v1/optimize", body, names)
        response = connection.getresponse()
        return response.status, response.read().decode("utf-8", "replace")


def announced(service: Service) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(f"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {2 * GIB}\r\n\r\n".encode())
        return answer(line)


def chunked(service: Service) -> tuple[int, str]:
    piece = b"%x\r\n%s\r\n" % (1 << 20, bytes(1 << 20))
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")
        with suppress(OSError):
            for _ in range(2 * GIB >> 20):
                line.sendall(piece)
        return answer(line)


def gzipped(service: Service) -> tuple[int, str]:
    return sent(service, gzip.compress(bytes(1 << 24)) * 64, Content_Encoding="gzip")


def zipped(service: Service) -> tuple[int, str]:
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("model.onnx", bytes(1 << 28))
    return sent(service, held.getvalue())


def deep(service: Service) -> tuple[int, str]:
    return sent(service, b"[" * 100_000 + b"]" * 100_000, Content_Type="application/json")


def deep_document(service: Service) -> tuple[int, str]:
    return sent(service, b'{"graph":' * 100_000 + b"1" + b"}" * 100_000, Content_Type="application/json")


def slow_head(service: Service) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        return dribbled(line, b"POST /v1/optimize HTTP/1.1\r\nHost: " + b"x" * 60)


def slow_body(service: Service) -> tuple[int, str]:
    with socket.create_connection(("127.0.0.1", service.port)) as line:
        line.sendall(b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100000\r\n\r\n")
        return dribbled(line, bytes(60))


def dribbled(line: socket.socket, data: bytes) -> tuple[int, str]:
    """Send a byte a second until there is an answer."""
    line.settimeout(1.0)
    for number in range(len(data)):
        with suppress(OSError):
            line.sendall(data[number : number + 1])
        with suppress(TimeoutError):
            if line.recv(1, socket.MSG_PEEK) is not None:
                break
    return answer(line)


def answer(line: socket.socket) -> tuple[int, str]:
    """Status and body of what the server says; 0 if it only ends the connection."""
    line.settimeout(60)
    response = http.client.HTTPResponse(line)
    try:
        response.begin()
        return response.status, response.read().decode("utf-8", "replace")
    except (OSError, http.client.HTTPException):
        return 0, ""


def schema(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), 1, settings=LIMITS) as service:
        finished = by_schema(service, Path(folder), args.examples, args.seed)
        print(finished.stdout)
        log = service.log_text()
    if "Traceback" in log:
        print("a traceback in the log: " + log[log.index("Traceback") :][:1500], file=sys.stderr)
    return int(finished.returncode != 0 or "Traceback" in log)


PHASES = "examples,coverage,fuzzing,stateful"
"""Of Schemathesis: coverage tries the edges of every parameter and takes longest."""


def by_schema(
    service: Service, folder: Path, examples: int, seed: int = 1, phases: str = PHASES
) -> subprocess.CompletedProcess[str]:
    """Schemathesis against a running service; it leaves what it remembers in the folder."""
    command = [Path(sys.executable).with_name("st"), "--config-file", SCHEMATHESIS, "--no-color", "run"]
    command += [f"{service.url}/openapi.json", "--max-examples", examples, "--seed", seed, "--no-shrink"]
    command += ["--phases", phases]
    return subprocess.run(list(map(str, command)), cwd=folder, capture_output=True, text=True, check=False)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("bodies", "hostile", "schema"))
    parser.add_argument("--examples", type=int, default=100)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=4)
    args = parser.parse_args()
    return {"bodies": bodies, "hostile": hostile, "schema": schema}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
