"""Calls of the dataflow API that reach other cores, and the semaphores' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from optimizer.kernels.tensix.dialect import CALL_PREFIX
from optimizer.kernels.tensix.ir import Attr, Op, Value, attributes


def call(function: str, operands: Sequence[Value], args: Sequence[str], template: Sequence[str] = ()) -> Op:
    """One call; `#k` in an argument stands for operand `k`."""
    attrs: dict[str, Attr] = {"args": tuple(args)}
    if template:
        attrs["template"] = tuple(template)
    return Op(f"{CALL_PREFIX}{function}", tuple(operands), (), attributes(attrs))


@dataclass(frozen=True)
class Word:
    """A semaphore, or one of several that are numbered in a row."""

    semaphore: Value
    number: Value | None = None

    @property
    def operands(self) -> tuple[Value, ...]:
        return (self.semaphore,) if self.number is None else (self.semaphore, self.number)

    def id(self, first: int) -> str:
        """Its number, where its operands begin with `#first`."""
        return f"#{first}" if self.number is None else f"#{first} + #{first + 1}"


def wait(word: Word, value: Value, at_least: bool = False) -> Op:
    """Until a semaphore of this core has a value, or at least this value."""
    function = "noc_semaphore_wait_min" if at_least else "noc_semaphore_wait"
    return call(function, (value, *word.operands), (f"semaphore_word({word.id(1)})", "#0"))


def set_own(word: Word, value: Value) -> Op:
    """A semaphore of this core gets a value."""
    return call("noc_semaphore_set", (value, *word.operands), (f"semaphore_word({word.id(1)})", "#0"))


def add_on(word: Word, value: Value, core: Sequence[Value]) -> Op:
    """A core's semaphore is added to."""
    target = f"on_core(#0, #1, get_semaphore({word.id(3)}))"
    return call("noc_semaphore_inc", (*core, value, *word.operands), (target, "#2"))


def set_on(word: Word, core: Sequence[Value]) -> Op:
    """A core's semaphore gets the value of this core's."""
    args = (f"get_semaphore({word.id(2)})", f"on_core(#0, #1, get_semaphore({word.id(2)}))")
    return call("noc_semaphore_set_remote", (*core, *word.operands), args)


def set_on_all(semaphore: Value, source: Value, cores: Sequence[Value], count: Value, loopback: bool) -> Op:
    """The semaphores of a rectangle's cores get the value of one of this core's."""
    function = f"noc_semaphore_set_multicast{'_loopback_src' if loopback else ''}"
    target = "on_cores(#0, #1, #2, #3, get_semaphore(#4))"
    return call(function, (*cores, semaphore, source, count), ("get_semaphore(#5)", target, "#6"))


def barrier(of: str) -> Op:
    """Until what this thread began has arrived: `read`, `write` or `atomic`."""
    return call(f"noc_async_{of}_barrier", (), ())
