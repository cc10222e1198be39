"""A run on plain steps: what is where, what a step needs, what is freed when."""

from __future__ import annotations

from random import Random

import pytest

from optimizer.l1.events import OPERAND, EventLog, OpAllocations, plain_allocations
from optimizer.l1.program import Buffer, Program, Row, Step
from optimizer.l1.rules import CHOICE_ROOM, LIMIT_RULE, PLACEMENT
from optimizer.l1.run import Bank, Run, replay
from optimizer.l1.running import RunningProgram

BANK = Bank(size_bytes=1000, limit_bytes=1000, alignment_bytes=1)


def op(
    name: str,
    size: int = 0,
    *reads: str,
    cb: int = 0,
    happens: OpAllocations | None = None,
    shares: str | None = None,
    room: int = 0,
    time_ns: int = 1,
) -> Step:
    """An op that reads values in L1 and gives one of `size` bytes, named like the op; 0: in DRAM."""
    writes: tuple[tuple[Buffer, int], ...] = (((name, ""), size),) if size else ()
    own = (size,) if size and shares is None else ()
    happens = plain_allocations(own, 0, cb) if happens is None else happens
    made = tuple((n, b) for n, (b, _) in zip(happens.results, writes, strict=False) if n is not None)
    return Step(
        name,
        time_ns,
        tuple((v, "") for v in reads),
        writes,
        None if shares is None else (shares, ""),
        happens.events,
        made,
        (reads[0], "") if reads else None,
        sum(own) + cb,
        room,
    )


def program(*steps: Step, kept: int = 0) -> Program:
    last = {v: at for at, step in enumerate(steps) for v, _ in step.reads}
    return Program([(step,) for step in steps], last, (("weight", kept),) if kept else ())


def depths(*steps: Step, bank: Bank = BANK) -> list[int]:
    """Deepest buffer after each step, from the top."""
    run, whole = Run(bank), program(*steps)
    found = []
    for at, row in enumerate(whole.rows):
        run.position(at, row, lambda v: whole.last_reads.get(v, 0))
        found.append(max((1 << 40) - address for address, _ in run.live.values()) if run.live else 0)
    return found


def test_a_result_is_placed_before_its_operand_is_freed() -> None:
    assert depths(op("a", 100), op("b", 100, "a"), op("c", 0, "b")) == [100, 200, 0]


def test_what_nobody_reads_is_freed_at_once() -> None:
    assert depths(op("a", 100), op("b", 50)) == [0, 0]


def test_a_view_keeps_its_source_and_takes_nothing() -> None:
    views = op("v", 100, "a", shares="a"), op("w", 100, "v", shares="v")

    assert depths(op("a", 100), *views, op("c", 40, "w"), op("d", 0, "c")) == [100, 100, 100, 140, 0]


def halo(temporary: int, result: int, cb: int, frees: bool = False) -> OpAllocations:
    """A convolution: its halo, the operand freed, the result, the program."""
    log = EventLog()
    log.made(temporary)
    if frees:
        log.freed(OPERAND)
    number = log.made(result)
    log.ran(cb)
    return log.allocations(number)


def test_a_result_lies_below_what_its_op_makes_on_the_way() -> None:
    conv = op("y", 100, "x", happens=halo(60, 100, 0))

    assert depths(op("x", 50), conv, op("z", 0, "y")) == [50, 210, 0]


def test_an_op_that_frees_its_operand_leaves_the_hole_to_its_result() -> None:
    conv = op("y", 50, "x", happens=halo(60, 50, 0, frees=True))

    assert depths(op("x", 50), conv, op("z", 0, "y")) == [50, 50, 0]


def test_an_operand_that_is_read_later_is_not_freed_by_its_op() -> None:
    conv = op("y", 50, "x", happens=halo(60, 50, 0, frees=True))

    assert depths(op("x", 50), conv, op("z", 0, "y", "x")) == [50, 160, 0]


@pytest.mark.parametrize(
    ("steps", "rule", "excess"),
    [
        ((op("a", 600), op("b", 300, "a", cb=101)), LIMIT_RULE, 1),
        ((op("a", 600), op("b", 0, "a", cb=400)), None, 0),
        ((op("a", 600), op("b", 0, "a", room=401)), CHOICE_ROOM, 1),
        # b lies below the hole that a leaves: 500 + 100 of it, and circular buffers of 401
        ((op("a", 500), op("b", 100, "a"), op("c", 0, cb=401), op("d", 0, "b")), PLACEMENT, 1),
        # the hole takes the halo of 450, but not the result of 100 besides: that lies below b
        (
            (op("a", 500), op("b", 100, "a"), op("y", 100, happens=halo(450, 100, 301)), op("d", 0, "b", "y")),
            PLACEMENT,
            1,
        ),
    ],
)
def test_the_rule_that_a_step_breaks_is_named(steps: tuple[Step, ...], rule: object, excess: int) -> None:
    overflows = replay(program(*steps), BANK).overflows

    assert [(o.rule, o.excess_bytes) for o in overflows] == ([] if rule is None else [(rule, excess)])


def test_weights_lie_at_the_top_and_stay() -> None:
    outcome = replay(program(op("a", 100), op("b", 0, "a", cb=100), kept=300), BANK)

    assert outcome.spare_bytes == 1000 - 300 - 200


def test_what_else_is_alive_is_named() -> None:
    steps = op("a", 400), op("b", 300), op("c", 0, "b", cb=400), op("d", 0, "a")

    (overflow,) = replay(program(*steps), BANK).overflows

    assert (overflow.op_id, overflow.residents, overflow.held_bytes, overflow.needs_bytes) == ("c", ("a",), 400, 700)
    assert not overflow.adds_up


def test_a_changed_program_runs_again_as_a_whole_one_does() -> None:
    """Random programs whose steps change their sizes: the kept states are those of a run from the start."""
    random = Random(0)
    for _ in range(100):
        names = [f"v{i}" for i in range(12)]
        readers = {v: sorted(random.sample(range(i + 1, 13), min(2, 12 - i))) for i, v in enumerate(names)}
        sizes = {v: random.choice([0, 30, 60, 200]) for v in names}

        def row(at: int, sizes: dict[str, int] = sizes, readers: dict[str, list[int]] = readers) -> Row:
            reads = [v for v, found in readers.items() if at in found and sizes[v]]
            name = f"v{at}"
            return (op(name, sizes.get(name, 0), *reads, cb=at * 10, time_ns=sizes.get(name, 0)),)

        def last_read(v: str, sizes: dict[str, int] = sizes, readers: dict[str, list[int]] = readers) -> int:
            return readers[v][-1] if readers.get(v) else int(v[1:])

        running = RunningProgram(13, row, last_read, BANK)
        for _ in range(5):
            at = random.randrange(12)
            name, before = f"v{at}", sizes[f"v{at}"]
            sizes[name] = random.choice([0, 30, 60, 200])
            time_before = running.time_ns
            outcome = running.rerun({at, *readers[name]}, max(readers[name]))
            assert running.time_ns == time_before - outcome.saved_ns
            if random.random() < 0.4:
                running.undo(outcome)
                sizes[name] = before
            whole = RunningProgram(13, row, last_read, BANK)
            assert [s.live for s in running._states] == [s.live for s in whole._states]
