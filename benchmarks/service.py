"""The service under load, real processes on loopback: nothing lost, nothing twice, and how fast it answers.

    python benchmarks/service.py chaos [--jobs 1000 --clients 50 --kill-every 3]
    python benchmarks/service.py latency [--seconds 15]

`chaos` posts different jobs from many clients while worker processes are killed (-9, solver processes and the worker
program in turn) and the server is ended twice, once by SIGTERM and once by -9. Every result is compared with what the
command writes for the same model and options. `latency` asks for health while all workers solve, and for results that
are known. Exit code 1 if anything is lost, wrong, or there twice.
"""

from __future__ import annotations

import argparse
import io
import json
import random
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from service_process import Service, percentile

from optimizer.cli import main as command

POLL_SECONDS = 0.25
PATIENCE_SECONDS = 900.0
SEED = 7


def model(number: int) -> bytes:
    """A small network of its own: matmuls, activations and a sum, of sizes that depend on the number."""
    draw = random.Random(number)
    rows, width = 32 * draw.randint(1, 16), 32 * draw.randint(2, 24)
    values: dict[str, Any] = {"x": {"shape": [1, 1, rows, width], "dtype": "bf16", "kind": "input"}}
    ops, last = [], "x"
    for layer in range(draw.randint(1, 3)):
        out = 32 * draw.randint(2, 24)
        values[f"w{layer}"] = {"shape": [width, out], "dtype": "bf16", "kind": "parameter"}
        for name, op, operands in (
            (f"m{layer}", "ttnn.matmul", [last, f"w{layer}"]),
            (f"a{layer}", draw.choice(["ttnn.relu", "ttnn.gelu", "ttnn.sigmoid"]), [f"m{layer}"]),
            (f"s{layer}", "ttnn.add", [f"m{layer}", f"a{layer}"]),
        ):
            values[name] = {"shape": [1, 1, rows, out], "dtype": "bf16", "kind": "activation"}
            ops.append({"id": f"op_{name}", "op": op, "inputs": operands, "outputs": [name]})
        width, last = out, f"s{layer}"
    graph = {"model": {"name": f"net{number}", "inputs": ["x"], "outputs": [last]}, "values": values, "ops": ops}
    return json.dumps(graph).encode()


def options(number: int) -> dict[str, str]:
    return {"board": ("n150", "p150")[number % 2], "policy": ("global", "dfsharding2", "dfsharding")[number % 3]}


def without_timings(text: bytes) -> str:
    record = json.loads(text)
    del record["timings"]
    return json.dumps(record, sort_keys=True)


def expected(number: int) -> str:
    """What the command writes."""
    flags = [text for name, value in options(number).items() for text in (f"--{name}", value)]
    with tempfile.TemporaryDirectory() as folder, redirect_stdout(io.StringIO()):
        source, output = Path(folder) / "model.json", Path(folder) / "out"
        source.write_bytes(model(number))
        status = command(["optimize", str(source), "-o", str(output), *flags])
        assert status == 0, status
        return without_timings((output / "graph.json").read_bytes())


@dataclass
class Run:
    """What the clients saw."""

    url: str
    ids: dict[int, str] = field(default_factory=dict)
    results: dict[int, bytes] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    refusals: Counter[str] = field(default_factory=Counter)
    lock: threading.Lock = field(default_factory=threading.Lock)

    def one(self, number: int) -> None:
        """A client's whole job: post it until it is taken, ask until it is done, read its result."""
        began = time.monotonic()
        query = "&".join(f"{key}={value}" for key, value in options(number).items())
        posted = self._until(f"/v1/jobs?{query}", model(number), {"Idempotency-Key": f"job-{number}"})
        job = json.loads(posted)
        while job["state"] in ("queued", "running"):
            time.sleep(POLL_SECONDS)
            job = json.loads(self._until(job["links"]["self"]))
        with self.lock:
            self.ids[number] = job["id"]
        if job["state"] != "succeeded":
            self.failures.append(f"job {number}: {job['state']}, {job['error']}")
            return
        found = self._until(job["links"]["result"])
        with self.lock:
            self.results[number] = found
            self.seconds.append(time.monotonic() - began)

    def _until(self, path: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> bytes:
        """The answer, asked for again as long as the server is away or busy."""
        ends = time.monotonic() + PATIENCE_SECONDS
        while True:
            request = urllib.request.Request(self.url + path, body, headers or {})
            try:
                with urllib.request.urlopen(request, timeout=60) as response:
                    data: bytes = response.read()
                    return data
            except urllib.error.HTTPError as error:
                if error.code not in (429, 503):
                    raise
                self.refusals[str(error.code)] += 1
            except OSError as error:
                self.refusals[type(error).__name__] += 1
            if time.monotonic() > ends:
                raise TimeoutError(path)
            time.sleep(POLL_SECONDS)


def chaos(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), args.workers, store=args.store) as service:
        run = Run(service.url)
        began = time.monotonic()
        stop = threading.Event()
        trouble = threading.Thread(target=make_trouble, args=(service, run, args, stop))
        trouble.start()
        with ThreadPoolExecutor(args.clients) as clients:
            done = list(clients.map(lambda n: attempt(run, n), range(args.jobs)))
        seconds = time.monotonic() - began
        stop.set()
        trouble.join()
        listed = all_jobs(service.url)
        run.failures += [text for text in done if text]
        peak = service.peak_bytes
    wrong = compare(run, args.jobs)
    twice = len(listed) - len(set(listed)) + len(set(listed) ^ set(run.ids.values()))
    print(f"{len(run.results)} of {args.jobs} results in {seconds:.0f} s; {len(listed)} jobs in the store")
    print(f"killed: {dict(service.killed)}; asked again: {dict(run.refusals)}")
    print(f"lost {args.jobs - len(run.results)}, wrong {len(wrong)}, twice or unknown {twice}")
    print(f"from post to result: p50 {percentile(run.seconds, 50):.1f} s, p99 {percentile(run.seconds, 99):.1f} s")
    print("peak memory: " + ", ".join(f"{name} {size / 2**20:.0f} MiB" for name, size in peak.items()))
    for text in (*run.failures[:10], *wrong[:10]):
        print(text, file=sys.stderr)
    return int(bool(run.failures or wrong or twice or len(run.results) != args.jobs))


def attempt(run: Run, number: int) -> str:
    try:
        run.one(number)
    except Exception as error:  # noqa: BLE001 - reported, and counted as a loss
        return f"job {number}: {type(error).__name__}: {error}"
    return ""


def make_trouble(service: Service, run: Run, args: argparse.Namespace, stop: threading.Event) -> None:
    """Kill a worker process every few seconds; end the server after a third and after two thirds of the results."""
    draw = random.Random(SEED)
    restarts = [(args.jobs // 3, False), (2 * args.jobs // 3, True)]
    while not stop.wait(args.kill_every):
        service.kill_a_worker(draw)
        service.measure()
        if restarts and len(run.results) >= restarts[0][0]:
            service.restart(hard=restarts.pop(0)[1])


def all_jobs(url: str) -> list[str]:
    """Ids of all jobs that the service knows."""
    found: list[str] = []
    cursor = ""
    while True:
        with urllib.request.urlopen(f"{url}/v1/jobs?limit=200&cursor={cursor}", timeout=60) as response:
            page = json.load(response)
        found += [job["id"] for job in page["jobs"]]
        if page["next"] is None:
            return found
        cursor = page["next"]


def compare(run: Run, count: int) -> list[str]:
    """Jobs whose result is not what the command writes."""
    return [
        f"job {number}: another result than the command's"
        for number in range(count)
        if number in run.results and without_timings(run.results[number]) != expected(number)
    ]


def latency(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), args.workers, store=args.store) as service:
        repeated = model(0)
        query = "&".join(f"{key}={value}" for key, value in options(0).items())
        service.post(f"/v1/optimize?{query}", repeated)
        resnet = Path("fixtures/onnx/resnet50_b1_legacy17.onnx").read_bytes()
        service.post("/v1/optimize?policy=dfsharding", resnet)
        for number in range(10_000, 10_000 + 400):
            service.post(f"/v1/jobs?policy=global&seed={number}", resnet)
        health = timed(service, "/healthz", None, args.seconds)
        print(f"/healthz while {args.workers} workers solve: {told(health)}")
        small = timed(service, f"/v1/optimize?{query}", repeated, args.seconds)
        print(f"known result, {len(repeated):,} B posted, workers solve: {told(small)}")
        large = timed(service, "/v1/optimize?policy=dfsharding", resnet, args.seconds)
        print(f"known result of ResNet-50, {len(resnet):,} B posted, workers solve: {told(large)}")
        service.cancel_all()
        for clients in (1, 8):
            quiet = timed(service, f"/v1/optimize?{query}", repeated, args.seconds, clients)
            print(f"known result, {clients} client(s), workers idle: {told(quiet)}, {len(quiet) / args.seconds:.0f}/s")
    return 0


def timed(service: Service, path: str, body: bytes | None, seconds: float, clients: int = 1) -> list[float]:
    """Seconds of each request, one after the other by each client, for so long."""
    ends = time.monotonic() + seconds

    def client(_number: int) -> list[float]:
        found = []
        with service.connection() as connection:
            while time.monotonic() < ends:
                began = time.perf_counter()
                connection.request("GET" if body is None else "POST", path, body)
                response = connection.getresponse()
                response.read()
                assert response.status == 200, response.status
                found.append(time.perf_counter() - began)
                if body is None:
                    time.sleep(0.005)
        return found

    with ThreadPoolExecutor(clients) as pool:
        return [value for part in pool.map(client, range(clients)) for value in part]


def told(seconds: list[float]) -> str:
    p50, p99 = (1000 * percentile(seconds, share) for share in (50, 99))
    return f"p50 {p50:.1f} ms, p99 {p99:.1f} ms of {len(seconds)}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("chaos", "latency"))
    parser.add_argument("--jobs", type=int, default=1000)
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--kill-every", type=float, default=3.0, metavar="SECONDS")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=15.0)
    parser.add_argument("--store", default="", help="database URL (default: SQLite in a temporary folder)")
    args = parser.parse_args()
    return {"chaos": chaos, "latency": latency}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
