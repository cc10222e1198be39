"""Reservations of a program, and the bytes that they add up to."""

from __future__ import annotations

from optimizer.l1.program import Buffer, Program, Step
from optimizer.l1.timeline import Reservation, timeline


def op(name: str, size: int, *reads: str, shares: str | None = None, form: str = "") -> Step:
    writes: tuple[tuple[Buffer, int], ...] = (((name, form), size),) if size else ()
    return Step(name, 1, tuple((v, "") for v in reads), writes, None if shares is None else (shares, ""))


def program(*steps: Step, kept: tuple[tuple[str, int], ...] = ()) -> Program:
    last = {v: at for at, step in enumerate(steps) for v, _ in step.reads}
    return Program([(step,) for step in steps], last, kept)


def test_a_value_is_held_from_its_op_to_its_last_reader() -> None:
    held = timeline(program(op("a", 10), op("b", 20, "a"), op("c", 0, "a"), op("d", 0)))

    assert held.reservations == (Reservation("a", 0, 2, 10), Reservation("b", 1, 1, 20))
    assert held.held_bytes() == (10, 30, 10, 0)


def test_what_shares_a_buffer_keeps_it_and_adds_nothing() -> None:
    held = timeline(program(op("a", 10), op("v", 10, "a", shares="a"), op("w", 10, "v", shares="v"), op("c", 0, "w")))

    assert [(r.value, r.end, r.shares) for r in held.reservations] == [("a", 3, None), ("v", 3, "a"), ("w", 3, "v")]
    assert held.held_bytes() == (10, 10, 10, 10)


def test_weights_are_held_throughout() -> None:
    assert timeline(program(op("a", 0), op("b", 0), kept=(("w", 7),))).held_bytes() == (7, 7)


def test_copies_for_one_op_are_no_reservations() -> None:
    assert timeline(program(op("a", 10, form="b:0"))).reservations == ()


def test_some_values_can_be_left_out() -> None:
    held = timeline(program(op("a", 10), op("b", 20, "a"), op("c", 0, "b")))

    assert held.held_bytes(without=("a",)) == (0, 20, 20)
