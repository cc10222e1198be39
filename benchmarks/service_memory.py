"""The service with many jobs and many who look at them, and with a store that is full.

    python benchmarks/service_memory.py watched [--jobs 10000 --clients 20 --watchers 200 --seconds 30]
    python benchmarks/service_memory.py full [--store-bytes 20000000 --clients 20 --seconds 30]

`watched` fills a store with jobs whose options are as long as they may be. Clients then list them page by page without
a pause, while half of the watchers follow the events of one running job and half ask for it as often as `Retry-After`
says. `full` posts jobs without a pause into a small store and reads the result of every one that was accepted. Exit
code 1 if the server takes more than 400 MB, more is counted than the store may take, something accepted is lost, or an
answer has a status from 500 on that does not say that the store has no room.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import random
import re
import sys
import tempfile
import threading
import time
import urllib.error
from collections import Counter
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from multiprocessing import get_context
from multiprocessing.queues import SimpleQueue
from pathlib import Path

from service import model
from service_process import Service, percentile

from api.jobs import documents
from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import Event, Job, Submission, Task
from api.jobs.room import taken_bytes
from api.jobs.store import MOST_LISTED, JobStore, Quota

LARGEST_SERVER_BYTES = 400 * 10**6
OPTION_CHARACTERS = 60_000
EVENT_SECONDS, ASK_SECONDS, SAMPLE_SECONDS = 0.25, float(documents.POLL_SECONDS), 0.02
PATIENCE_SECONDS = 300.0
ARRIVAL_SECONDS = 2.0
"""Over which the clients come."""
FILLERS = 8
LONGEST_BODY = 20_000


# -- many jobs, many who look ----------------------------------------------------------------------------------
def watched(args: argparse.Namespace) -> int:
    with tempfile.TemporaryDirectory() as folder:
        store_url = args.store or f"sqlite:///{folder}/jobs.sqlite"
        database = Database(store_url)
        database.migrate()
        queue, running = JobQueue(database, PATIENCE_SECONDS, 3), fill(JobStore(database), args.jobs)
        with Service(Path(folder), 0, store_url, ready=False) as service:
            before = service.server_peak_bytes()
            seconds, seen = looked_at(service, queue, running, args)
            peak = service.server_peak_bytes()
        database.close()
    told = ", ".join(f"{count:,} {name}" for name, count in sorted(seen.items()))
    print(f"{args.jobs:,} jobs, {args.clients} clients listing, {args.watchers} watchers: {told}")
    print(f"server: {peak / 1e6:.0f} MB at most, {before / 1e6:.0f} MB before; {load()}")
    p50, p99 = (1000 * percentile(seconds, share) for share in (50, 99))
    print(f"/healthz: p50 {p50:.1f} ms, p99 {p99:.1f} ms of {len(seconds)}")
    return int(peak > LARGEST_SERVER_BYTES or any(int(status) >= 500 for status in re.findall(r"\b\d{3}\b", told)))


def fill(store: JobStore, jobs: int) -> Job:
    """Store so many jobs with long options, and lease the first of them; that one."""

    def post(number: int) -> None:
        task = Task("optimize", options={"board": "n150", "override_output_layout": "x" * OPTION_CHARACTERS})
        store.submit(Submission("", task, f"key{number}", name=f"net{number}", priority=int(not number)), Quota())

    with ThreadPoolExecutor(FILLERS) as pool:
        list(pool.map(post, range(jobs)))
    claim = JobQueue(store.database, PATIENCE_SECONDS, 3).claim("benchmark")
    assert claim is not None
    return claim.job


def looked_at(
    service: Service, queue: JobQueue, running: Job, args: argparse.Namespace
) -> tuple[list[float], Counter[str]]:
    """Seconds of each answer of `/healthz` meanwhile, and what the others got, by what they asked for and status."""
    found: SimpleQueue[Counter[str]] = get_context("spawn").SimpleQueue()
    load = get_context("spawn").Process(target=others, args=(service.port, running.id, args, found))
    load.start()
    found.get()
    seconds: list[float] = []
    ends, number = time.monotonic() + args.seconds, 0
    with service.connection() as connection:
        while time.monotonic() < ends:
            number += 1
            queue.note(running, [Event(number, "incumbent", {"objective_ns": number, "bound_ns": 0, "gap": 1.0})])
            until = time.monotonic() + EVENT_SECONDS
            while time.monotonic() < until:
                began = time.perf_counter()
                connection.request("GET", "/healthz")
                connection.getresponse().read()
                seconds.append(time.perf_counter() - began)
                time.sleep(0.005)
    queue.cancelled(running)
    seen = found.get()
    load.join()
    return seconds, seen


def others(port: int, job: str, args: argparse.Namespace, found: SimpleQueue[Counter[str]]) -> None:
    """A process with the clients that list and watch; the first it says is that all are there."""
    asyncio.run(_others(port, job, args, found))


async def _others(port: int, job: str, args: argparse.Namespace, found: SimpleQueue[Counter[str]]) -> None:
    seen: Counter[str] = Counter()
    ends = time.monotonic() + ARRIVAL_SECONDS + args.seconds
    asyncio.get_running_loop().call_later(ARRIVAL_SECONDS, found.put, Counter())
    watching = [_watch(port, job, seen) for _ in range(args.watchers // 2)]
    asking = [_ask(port, f"/v1/jobs/{job}", "asked", ASK_SECONDS, ends, seen) for _ in range(args.watchers // 2)]
    first = f"/v1/jobs?limit={MOST_LISTED}"
    listing = [_ask(port, first, "listed", 0.0, ends, seen) for _ in range(args.clients)]
    await asyncio.gather(*watching, *asking, *listing)
    found.put(seen)


async def _ask(port: int, first: str, what: str, pause: float, ends: float, seen: Counter[str]) -> None:
    """Ask again and again, for the next page where there is one."""
    await asyncio.sleep(random.random() * ARRIVAL_SECONDS)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    path = first
    while time.monotonic() < ends:
        writer.write(f"GET {path} HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
        head = (await reader.readuntil(b"\r\n\r\n")).decode()
        length = re.search(r"content-length: (\d+)", head)
        body = await reader.readexactly(int(length[1])) if length else b""
        seen[f"{what} {head.split()[1]}"] += 1
        following = re.search(rb'"next":"([^"]+)"', body[-100:])
        path = f"{first}&cursor={following[1].decode()}" if following else first
        await asyncio.sleep(pause)
    writer.close()


async def _watch(port: int, job: str, seen: Counter[str]) -> None:
    """Follow the events of a job until it ends."""
    await asyncio.sleep(random.random() * ARRIVAL_SECONDS)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET /v1/jobs/{job}/events HTTP/1.1\r\nHost: localhost\r\n\r\n".encode())
    head = (await reader.readuntil(b"\r\n\r\n")).decode()
    seen[f"watching {head.split()[1]}"] += 1
    while data := await asyncio.wait_for(reader.read(1 << 16), PATIENCE_SECONDS):
        seen["events"] += data.count(b"event: incumbent")
        if b"event: done" in data:
            break
    writer.close()


# -- a full store ----------------------------------------------------------------------------------------------
def full(args: argparse.Namespace) -> int:
    statuses: Counter[str] = Counter()
    accepted: list[str] = []
    largest: Counter[str] = Counter()
    settings, stop = {"TTOPT_STORE_BYTES": str(args.store_bytes)}, threading.Event()
    with tempfile.TemporaryDirectory() as folder, Service(Path(folder), 2, settings=settings) as service:
        sampler = threading.Thread(target=sample, args=(Path(folder) / "jobs.sqlite", stop, largest))
        sampler.start()
        ends = time.monotonic() + args.seconds
        with ThreadPoolExecutor(args.clients + 1) as clients:
            reading = clients.submit(read_all, service, accepted, ends)
            for part in range(args.clients):
                clients.submit(post_until, service, range(part, sys.maxsize, args.clients), ends, statuses, accepted)
        outcomes = reading.result()
        stop.set()
        sampler.join()
        peak = service.server_peak_bytes()
    print(f"limit {args.store_bytes:,} B; at most " + ", ".join(f"{n:,} B {what}" for what, n in largest.items()))
    print(f"posted by {args.clients} clients in {args.seconds:g} s: {dict(statuses)}")
    print(f"of {len(accepted)} accepted: {dict(outcomes)}; server {peak / 1e6:.0f} MB at most; {load()}")
    strange = set(statuses) - {"202", "503 no-store", "429 busy"}
    is_lost = outcomes["read"] < len(accepted)
    return int(bool(strange or is_lost or largest["counted"] > args.store_bytes or peak > LARGEST_SERVER_BYTES))


def post_until(service: Service, numbers: Iterable[int], ends: float, statuses: Counter[str], ids: list[str]) -> None:
    """Post one model after the other, each with texts of its own."""
    with service.connection() as connection:
        for number in numbers:
            if time.monotonic() > ends:
                return
            body = model(number)
            connection.request(
                "POST",
                f"/v1/jobs?policy=dram&name={number}",
                body + b" " * random.Random(number).randrange(LONGEST_BODY),
            )
            answer = connection.getresponse()
            told = json.loads(answer.read())
            statuses[f"{answer.status} {told.get('code', '')}".strip()] += 1
            if answer.status == 202:
                ids.append(told["id"])


def read_all(service: Service, accepted: list[str], ends: float) -> Counter[str]:
    """Read the result of every job as soon as it is finished, until nothing more comes."""
    outcomes: Counter[str] = Counter()
    at, patience = 0, ends + PATIENCE_SECONDS
    while time.monotonic() < ends or at < len(accepted):
        if at == len(accepted):
            time.sleep(ASK_SECONDS)
            continue
        status, text = asked(service, f"/v1/jobs/{accepted[at]}/result")
        if status == 409 and json.loads(text)["code"] == "not-finished" and time.monotonic() < patience:
            time.sleep(SAMPLE_SECONDS)
            continue
        outcomes["read" if status == 200 and json.loads(text)["ops"] else f"{status} {text[:200]!r}"] += 1
        at += 1
    return outcomes


def asked(service: Service, path: str) -> tuple[int, bytes]:
    try:
        return 200, service.get(path)
    except urllib.error.HTTPError as error:
        return error.code, error.read()


def sample(file: Path, stop: threading.Event, largest: Counter[str]) -> None:
    """Note the most that is counted in a store, and the sizes of its files."""
    database = Database(f"sqlite:///{file}")
    while not stop.wait(SAMPLE_SECONDS):
        with database.reading() as connection:
            sizes = {"counted": taken_bytes(connection), "in the file": file.stat().st_size}
        sizes["in its log"] = file.with_name(file.name + "-wal").stat().st_size
        for what, size in sizes.items():
            largest[what] = max(largest[what], size)
    database.close()


def load() -> str:
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", choices=("watched", "full"))
    parser.add_argument("--jobs", type=int, default=10_000)
    parser.add_argument("--clients", type=int, default=20)
    parser.add_argument("--watchers", type=int, default=200)
    parser.add_argument("--store-bytes", type=int, default=20_000_000)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--store", default="", help="database URL (default: SQLite in a temporary folder)")
    args = parser.parse_args()
    return {"watched": watched, "full": full}[args.what](args)


if __name__ == "__main__":
    sys.exit(main())
