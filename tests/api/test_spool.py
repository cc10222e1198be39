"""Bodies on their way to disk: how many, how large, how fast."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest
from starlette.requests import ClientDisconnect
from starlette.types import Message, Receive

from api.disk import SpoolError
from api.problems import BusyError, TooSlowError
from api.settings import Settings
from api.spool import Spool, SpooledFile
from optimizer.errors import LimitError

SCOPE = {"type": "http", "headers": []}


def with_spool(settings: Settings, scenario: Callable[[Spool], Awaitable[None]]) -> None:
    async def main() -> None:
        spool = Spool(settings)
        await scenario(spool)
        spool.close()

    asyncio.run(main())


def sender(*pieces: bytes, stays: bool = False) -> Receive:
    """A client that sends these pieces; if it stays, it never sends a last one."""
    left: Iterator[bytes] = iter(pieces)
    count = len(pieces)

    async def receive() -> Message:
        nonlocal count
        if not count:
            await asyncio.Event().wait()
        count -= 1
        return {"type": "http.request", "body": next(left), "more_body": count > 0 or stays}

    return receive


def content(file: SpooledFile) -> bytes:
    return os.pread(file.descriptor, 1 << 20, 0)


def test_a_body_lies_in_a_file_without_a_name(tmp_path: Path) -> None:
    async def scenario(spool: Spool) -> None:
        with await spool.body(SCOPE, sender(b"one", b"", b"x" * 100_000, b"two")) as file:
            assert content(file) == b"one" + b"x" * 100_000 + b"two"
            assert file.size == 100_006
            assert os.listdir(tmp_path) == []

    with_spool(Settings(spool_folder=str(tmp_path)), scenario)


def test_bytes_are_counted_while_they_lie_there() -> None:
    async def scenario(spool: Spool) -> None:
        first = await spool.body(SCOPE, sender(b"x" * 70))
        with pytest.raises(BusyError) as full:
            await spool.body(SCOPE, sender(b"x" * 40))
        assert full.value.limit == 100
        first.close()
        (await spool.body(SCOPE, sender(b"x" * 100))).close()
        assert spool.has_room

    with_spool(Settings(spool_bytes=100), scenario)


def test_what_a_worker_writes_counts_too() -> None:
    async def scenario(spool: Spool) -> None:
        with spool.file() as answer:
            os.write(answer.descriptor, b"x" * 200)
            answer.measure()
            assert not spool.has_room
            assert b"".join([piece async for piece in answer.pieces()]) == b"x" * 200
        assert spool.has_room

    with_spool(Settings(spool_bytes=100), scenario)


def test_only_so_many_bodies_at_once() -> None:
    async def scenario(spool: Spool) -> None:
        first = asyncio.ensure_future(spool.body(SCOPE, sender(b"x", stays=True)))
        await asyncio.sleep(0.05)
        with pytest.raises(BusyError) as full:
            await spool.body(SCOPE, sender(b"x"))
        assert (full.value.http_status, full.value.limit) == (429, 1)
        first.cancel()
        await asyncio.wait([first])
        (await spool.body(SCOPE, sender(b"x"))).close()

    with_spool(Settings(max_uploads=1), scenario)


@pytest.mark.parametrize("settings", [Settings(stall_seconds=0.1), Settings(body_seconds=0.1)])
def test_a_body_that_stalls_is_given_up(settings: Settings) -> None:
    async def scenario(spool: Spool) -> None:
        with pytest.raises(TooSlowError) as slow:
            await spool.body(SCOPE, sender(b"x" * 4000, stays=True))
        assert slow.value.http_status == 408
        assert spool.has_room

    with_spool(settings, scenario)


def test_a_body_that_keeps_its_pace_may_take_several_spans() -> None:
    async def scenario(spool: Spool) -> None:
        feed = sender(*[b"x" * 100] * 10)

        async def receive() -> Message:
            await asyncio.sleep(0.03)
            return await feed()

        with await spool.body(SCOPE, receive) as file:
            assert file.size == 1000

    with_spool(Settings(stall_seconds=0.1, min_body_rate=10), scenario)


@pytest.mark.parametrize("announced", [b"101", b"9" * 5000])
def test_an_announced_length_is_refused_before_a_byte_is_read(announced: bytes) -> None:
    async def receive() -> Message:
        raise AssertionError("the body was read")

    async def scenario(spool: Spool) -> None:
        with pytest.raises(LimitError):
            await spool.body({"type": "http", "headers": [(b"content-length", announced)]}, receive)

    with_spool(Settings(max_body_bytes=100), scenario)


def test_a_client_that_leaves_leaves_nothing() -> None:
    async def receive() -> Message:
        return {"type": "http.disconnect"}

    async def scenario(spool: Spool) -> None:
        with pytest.raises(ClientDisconnect):
            await spool.body(SCOPE, receive)
        assert spool.has_room

    with_spool(Settings(max_uploads=1), scenario)


def test_a_folder_that_takes_no_file_is_the_operators_to_mend(tmp_path: Path) -> None:
    async def scenario(spool: Spool) -> None:
        with pytest.raises(SpoolError) as error:
            await spool.body(SCOPE, sender(b"x"))
        assert error.value.http_status == 503

    with_spool(Settings(spool_folder=str(tmp_path / "missing")), scenario)
