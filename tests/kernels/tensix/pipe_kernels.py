"""Kernels whose cores send blocks to each other: gather, scatter, all to all, ring; sums that wait for a semaphore."""

from __future__ import annotations

from collections.abc import Callable

from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.ttl import dataflow as flow

CORES = 4


def _one_tile_each(
    name: str,
    pipes: Callable[[], list[flow.Pipe]],
    *,
    received: int,
    rounds: int = 2,
    grid: tuple[int, ...] = (CORES, 1),
    receiver: str = "writer",
    blocks: int = 2,
    origin: tuple[int, int] | None = None,
) -> Op:
    """Every core has a tile of x per round and sends it where the pipes go; it writes its own plus all it receives.

    `received`: blocks that a core receives per round, of those that do; x and y have a column of tiles per core.
    """

    def threads(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        own_cb, there_cb, sum_cb, y_cb = (ttl.make_circular_buffer_like(x, (1, 1), n) for n in (2, blocks, 2, 2))
        net = flow.PipeNet(pipes())

        def column() -> flow.Index:
            *_, last = ttl.core(dims=1)
            return last

        @ttl.compute()
        def add() -> None:
            for _ in flow.loop(rounds):
                own = own_cb.wait()
                for n in range(received):
                    room = (y_cb if n == received - 1 else sum_cb).reserve()
                    room.store((own if n == 0 else sum_cb.wait()) + there_cb.wait())
                    there_cb.pop()
                    if n:
                        sum_cb.pop()
                    (y_cb if n == received - 1 else sum_cb).push()
                own_cb.pop()

        def send(block: ttl.Block) -> None:
            net.if_src(lambda pipe: ttl.copy(block, pipe).wait())

        def receive() -> None:
            def each(pipe: ttl.PipeEnd) -> None:
                ttl.copy(pipe, there_cb.reserve()).wait()
                there_cb.push()

            net.if_dst(each)

        @ttl.datamovement()
        def bring() -> None:
            at = column()
            for k in flow.loop(rounds):
                block = own_cb.reserve()
                ttl.copy(x[k, at], block).wait()
                send(block)
                own_cb.push()
                if receiver == "reader":
                    receive()

        @ttl.datamovement()
        def take() -> None:
            at = column()
            for k in flow.loop(rounds):
                if receiver == "writer":
                    receive()
                ttl.copy(y_cb.wait(), y[k, at]).wait()
                y_cb.pop()

        return ttl.Program(add, bring, take)(x, y)

    threads.__name__ = name
    cores = 1
    for size in grid:
        cores *= size
    config = {} if origin is None else {"origin": origin}
    return ttl.kernel(grid=grid, **config)(threads)(ttl.Tensor((rounds, cores)), ttl.Tensor((rounds, cores)))


def ring() -> Op:
    """Every core sends to the next one: y[n] = x[n] + x[n - 1]."""
    return _one_tile_each(
        "ring", lambda: [flow.Pipe(src=(n, 0), dst=((n + 1) % CORES, 0)) for n in range(CORES)], received=1, rounds=3
    )


def all_to_all(origin: tuple[int, int] | None = None) -> Op:
    """Every core sends to all, itself included: y[n] = x[n] + the sum of all."""
    pipes = lambda: [flow.Pipe(src=(n, 0), dst=(slice(0, CORES), 0)) for n in range(CORES)]  # noqa: E731
    return _one_tile_each("all_to_all", pipes, received=CORES, blocks=CORES, origin=origin)


def planes() -> Op:
    """In a grid of three dimensions, each core sends to its opposite in the other plane."""

    def pipes() -> list[flow.Pipe]:
        return [flow.Pipe((z, y, x), (1 - z, y, x)) for z in range(2) for y in range(2) for x in range(2)]

    return _one_tile_each("planes", pipes, received=1, grid=(2, 2, 2))


def gather() -> Op:
    """All other cores send to core 0 through a pipe each: y = the sum of all of x."""

    @ttl.kernel(grid=(CORES, 1))
    def gathered(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        x_cb, away_cb, there_cb, sum_cb, y_cb = (ttl.make_circular_buffer_like(x, (1, 1)) for _ in range(5))
        net = flow.PipeNet([flow.Pipe(src_core=(n, 0), dst_core=(0, 0)) for n in range(1, CORES)])

        @ttl.compute()
        def add() -> None:
            column, _ = ttl.core()
            with flow.when(column == 0):
                sum_cb.reserve().store(x_cb.wait() * 1.0)
                x_cb.pop()
                sum_cb.push()
                for _ in flow.loop(CORES - 1):
                    sum_cb.reserve().store(sum_cb.wait() + there_cb.wait())
                    there_cb.pop()
                    sum_cb.pop()
                    sum_cb.push()
                y_cb.reserve().store(sum_cb.wait() * 1.0)
                sum_cb.pop()
                y_cb.push()

        @ttl.datamovement()
        def bring() -> None:
            column, _ = ttl.core()
            with flow.when(column == 0):
                ttl.copy(x[0, 0], x_cb.reserve()).wait()
                x_cb.push()

            def send(pipe: ttl.PipeEnd) -> None:
                ttl.copy(x[0, column], away_cb.reserve()).wait()
                away_cb.push()
                ttl.copy(away_cb.wait(), pipe).wait()
                away_cb.pop()

            net.if_src(send)

        @ttl.datamovement()
        def take() -> None:
            def receive(pipe: ttl.PipeEnd) -> None:
                ttl.copy(pipe, there_cb.reserve()).wait()
                there_cb.push()

            net.if_dst(receive)
            column, _ = ttl.core()
            with flow.when(column < 1):
                ttl.copy(y_cb.wait(), y[0, 0]).wait()
                y_cb.pop()

        return ttl.Program(add, bring, take)(x, y)

    return gathered(ttl.Tensor((1, CORES)), ttl.Tensor((1, 1)))


def around(source: tuple[int, int], grid: tuple[int, int] = (2, 2), origin: tuple[int, int] = (0, 0)) -> Op:
    """One core reads the blocks of x and sends them to all others of the grid: every column of y is x."""
    columns, rows = grid
    cores, rounds = columns * rows, 3

    @ttl.kernel(grid=grid, origin=origin)
    def spread(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        x_cb, y_cb = (ttl.make_circular_buffer_like(x, (1, 1)) for _ in range(2))
        everywhere = (slice(0, columns), slice(0, rows))
        net = flow.PipeNet([flow.Pipe(src_core=source, dst_core_range=everywhere, src_receives=False)])

        @ttl.compute()
        def double() -> None:
            for _ in flow.loop(rounds):
                y_cb.reserve().store(x_cb.wait() * 2.0)
                x_cb.pop()
                y_cb.push()

        @ttl.datamovement()
        def bring() -> None:
            for k in flow.loop(rounds):

                def send(pipe: ttl.PipeEnd, k: flow.Index = k) -> None:
                    room = x_cb.reserve()
                    ttl.copy(x[k, 0], room).wait()
                    ttl.copy(room, pipe).wait()
                    x_cb.push()

                def receive(pipe: ttl.PipeEnd) -> None:
                    ttl.copy(pipe, x_cb.reserve()).wait()
                    x_cb.push()

                net.if_src(send)
                net.if_dst(receive)

        @ttl.datamovement()
        def take() -> None:
            column, row = ttl.core()
            for k in flow.loop(rounds):
                ttl.copy(y_cb.wait(), y[k, row * columns + column]).wait()
                y_cb.pop()

        return ttl.Program(double, bring, take)(x, y)

    return spread(ttl.Tensor((rounds, 1)), ttl.Tensor((rounds, cores)))


def in_turn() -> Op:
    """Cores write one after the other: each doubles what the one before has left in DRAM, y = 2 ** CORES * x."""

    @ttl.kernel(grid=(CORES, 1))
    def doubled(x: ttl.Tensor, y: ttl.Tensor) -> tuple[Op, ...]:
        in_cb, out_cb = (ttl.make_circular_buffer_like(x, (1, 1)) for _ in range(2))
        turn, begin = flow.create_semaphore(), flow.create_semaphore(0)

        @ttl.compute()
        def double() -> None:
            out_cb.reserve().store(in_cb.wait() * 2.0)
            in_cb.pop()
            out_cb.push()

        @ttl.datamovement()
        def bring() -> None:
            column, _ = ttl.core()
            with flow.when(column == 0):
                begin.get_remote_multicast().set(1)
                ttl.copy(x[0, 0], in_cb.reserve()).wait()
                in_cb.push()
            with flow.when(column >= 1):
                begin.wait_eq(1)
                turn.wait_min(1)
                ttl.copy(y[0, 0], in_cb.reserve()).wait()
                in_cb.push()

        @ttl.datamovement()
        def take() -> None:
            column, row = ttl.core()
            ttl.copy(out_cb.wait(), y[0, 0]).wait()
            out_cb.pop()
            with flow.when(column < CORES - 1):
                turn.get_remote((column + 1, row)).inc(1)
            with flow.when(column == CORES - 1):
                begin.get_remote((0, 0)).set(7)

        return ttl.Program(double, bring, take)(x, y)

    return doubled(ttl.Tensor((1, 1)), ttl.Tensor((1, 1)))
