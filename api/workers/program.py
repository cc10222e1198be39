"""The worker program: leases jobs from the store, works on them in processes of its own, as long as it is wanted.

`ttopt serve` starts one and talks to it: a byte on its stdin says that there is work, a line on its stdout that a job
has changed, and the end of its stdin that the server is gone. `ttopt worker` runs one by itself, on any machine that
reaches the store; it looks for work from time to time.
"""

from __future__ import annotations

import logging
import os
import secrets
import signal
import socket
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from types import FrameType

from api.jobs.database import Database
from api.jobs.queue import JobQueue
from api.jobs.records import Claim
from api.jobs.room import Room
from api.jobs.store import JobStore
from api.settings import Settings
from api.workers.slot import Slot
from optimizer.errors import TtoptError

log = logging.getLogger(__name__)

POLL_SECONDS = 0.25
"""Between two looks for work that nobody told of."""
BEATS_PER_LEASE = 8
STORE_PAUSE_SECONDS = 1.0
"""After the store could not be used."""
START_PAUSE_SECONDS = 1.0
"""After a solver process ended while it was loading."""
STOPPING = (signal.SIGTERM, signal.SIGINT)


class WorkerProgram:
    """Slots, and the three threads' worth of work around them: dispatching, beating, listening."""

    def __init__(self, settings: Settings, name: str, supervised: bool) -> None:
        self._settings = settings
        self._name = name
        self._supervised = supervised
        self._database = Database(settings.store_url)
        room = Room(settings.store_bytes)
        self._store = JobStore(self._database, room)
        self._queue = JobQueue(self._database, settings.lease_seconds, settings.attempts, room)
        self._slots = [Slot(self._store, self._queue, settings, self._tell) for _ in range(settings.workers)]
        self._free: list[Slot] = []
        """Slots without a job; one that is still loading is none of them."""
        self._lock = threading.Lock()
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._left = threading.Event()
        self._threads = ThreadPoolExecutor(len(self._slots), thread_name_prefix="slot")

    def run(self) -> None:
        """Work until a signal, or the end of stdin, ends it; then finish what is under way, for so long as it may."""
        self._database.check_version()
        for number in STOPPING:
            signal.signal(number, self._stop)
        if self._supervised:
            threading.Thread(target=self._listen, daemon=True).start()
        beats = threading.Thread(target=self._beat, daemon=True)
        beats.start()
        for slot in self._slots:
            self._threads.submit(self._warm, slot)
        while not self._stopping.is_set():
            self._dispatch()
        self._drain()
        self._left.set()
        beats.join()
        self._queue.leave(self._name)
        self._database.close()

    def _dispatch(self) -> None:
        """Give the next job to a free slot, or wait until there may be one of each."""
        self._wake.clear()
        with self._lock:
            slot = self._free[0] if self._free else None
        try:
            claimed = None if slot is None else self._queue.claim(self._name)
        except TtoptError:
            self._stopping.wait(STORE_PAUSE_SECONDS)
            return
        if slot is None or claimed is None:
            self._wake.wait(POLL_SECONDS)
            return
        with self._lock:
            self._free.remove(slot)
        self._tell(claimed.job.id)
        self._threads.submit(self._run, slot, claimed)

    def _warm(self, slot: Slot) -> None:
        """Wait until the slot's process would begin a job at once, and free it: a job is for none that still loads."""
        while not slot.is_warm and not self._stopping.is_set():
            slot.warm()
            if not slot.is_warm:
                self._stopping.wait(START_PAUSE_SECONDS)
        with self._lock:
            self._free.append(slot)
        self._wake.set()

    def _run(self, slot: Slot, claim: Claim) -> None:
        try:
            slot.run(claim)
        finally:
            self._warm(slot)

    def _beat(self) -> None:
        """Say that this program lives, and prolong the leases of its jobs."""
        while not self._left.is_set():
            try:
                self._queue.beat(
                    self._name,
                    len(self._slots),
                    sum(slot.is_warm for slot in self._slots),
                    sum(slot.lost for slot in self._slots),
                )
                self._renew()
            except TtoptError as error:
                log.warning("no beat: %s", error)
            self._left.wait(self._settings.lease_seconds / BEATS_PER_LEASE)

    def _renew(self) -> None:
        held = [current for slot in self._slots if (current := slot.current) is not None]
        found = self._queue.renew([str(job.lease) for job, _ in held])
        for job, orders in held:
            if job.lease not in found:
                orders.lease_lost = True
            elif found[str(job.lease)]:
                orders.cancel = True

    def _listen(self) -> None:
        """A byte of the server wakes the dispatcher; `c` asks to look for jobs to cancel at once."""
        while data := os.read(sys.stdin.fileno(), 4096):
            self._wake.set()
            if b"c" in data:
                try:
                    self._renew()
                except TtoptError as error:
                    log.warning("no renewal: %s", error)
        self._stop()

    def _tell(self, job_id: str) -> None:
        if self._supervised:
            try:
                os.write(sys.stdout.fileno(), job_id.encode() + b"\n")
            except BrokenPipeError:
                self._stop()

    def _stop(self, _signum: int = 0, _frame: FrameType | None = None) -> None:
        self._stopping.set()
        self._wake.set()

    def _drain(self) -> None:
        """Let jobs end; those that take too long are given back."""
        ends = time.monotonic() + self._settings.drain_seconds
        while time.monotonic() < ends and any(slot.current is not None for slot in self._slots):
            time.sleep(0.05)
        for current in [slot.current for slot in self._slots]:
            if current is not None:
                current[1].stop = True
        self._threads.shutdown(wait=True)
        for slot in self._slots:
            slot.close()


def new_name() -> str:
    """A name for a worker program: its machine, its process, and something that no other has."""
    return f"{socket.gethostname()[:32]}-{os.getpid()}-{secrets.token_hex(4)}"
