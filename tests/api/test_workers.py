"""The pool behind the event loop: crash, time limit, client gone, full queue."""

from __future__ import annotations

import asyncio
import operator
import os
import time
from collections.abc import Awaitable, Callable
from functools import partial

import pytest

from api.problems import BusyError, ClientGone, WorkerLostError
from api.workers import WorkerPool
from optimizer.errors import TimeLimitError


def with_pool(scenario: Callable[[WorkerPool], Awaitable[None]], size: int = 1, queue_limit: int = 4) -> None:
    async def main() -> None:
        pool = WorkerPool(size, queue_limit)
        pool.start()
        try:
            await scenario(pool)
        finally:
            pool.close()

    asyncio.run(main())


async def stays() -> None:
    await asyncio.Event().wait()


async def leaves_after(seconds: float) -> None:
    await asyncio.sleep(seconds)


async def add(pool: WorkerPool) -> int:
    value: int = await pool.run(partial(operator.add, 1, 2), 60, stays)
    return value


def test_a_crash_is_told_and_the_next_request_works() -> None:
    async def scenario(pool: WorkerPool) -> None:
        with pytest.raises(WorkerLostError, match="signal 6"):
            await pool.run(os.abort, 60, stays)
        assert await add(pool) == 3

    with_pool(scenario)


def test_a_worker_that_died_idle_is_replaced() -> None:
    async def scenario(pool: WorkerPool) -> None:
        pid = await pool.run(os.getpid, 60, stays)
        os.kill(pid, 9)
        await asyncio.sleep(0.5)
        assert await add(pool) == 3

    with_pool(scenario)


def test_the_time_limit_stops_the_process() -> None:
    async def scenario(pool: WorkerPool) -> None:
        await add(pool)
        started = time.monotonic()
        with pytest.raises(TimeLimitError) as stopped:
            await pool.run(partial(time.sleep, 600), 0.5, stays)
        assert stopped.value.limit == 0.5
        assert await add(pool) == 3
        assert time.monotonic() - started < 30

    with_pool(scenario)


def test_a_client_that_leaves_frees_its_worker() -> None:
    async def scenario(pool: WorkerPool) -> None:
        with pytest.raises(ClientGone):
            await pool.run(partial(time.sleep, 600), 600, partial(leaves_after, 0.2))
        assert await add(pool) == 3

    with_pool(scenario)


def test_a_client_that_leaves_the_queue_is_forgotten() -> None:
    async def scenario(pool: WorkerPool) -> None:
        working = asyncio.ensure_future(pool.run(partial(time.sleep, 3), 60, stays))
        await asyncio.sleep(0.1)
        with pytest.raises(ClientGone):
            await pool.run(partial(operator.add, 1, 2), 60, partial(leaves_after, 0.1))
        assert not working.done()
        await working
        assert await add(pool) == 3

    with_pool(scenario)


def test_a_full_queue_refuses_and_the_loop_stays_awake() -> None:
    async def scenario(pool: WorkerPool) -> None:
        await add(pool)
        working = asyncio.ensure_future(pool.run(partial(time.sleep, 2), 60, stays))
        await asyncio.sleep(0.1)
        waiting = asyncio.ensure_future(add(pool))
        await asyncio.sleep(0.1)
        started = time.monotonic()
        assert not pool.has_room
        with pytest.raises(BusyError) as busy:
            await add(pool)
        assert busy.value.http_status == 429
        assert time.monotonic() - started < 0.5
        await working
        assert await waiting == 3

    with_pool(scenario, queue_limit=1)
