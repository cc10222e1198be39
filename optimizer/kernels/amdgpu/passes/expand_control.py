"""Loops and raw text, which change the control flow graph, as the instructions they stand for.

_loop_begin counter, bound      loop_header:  s_cmp_lt_u32 counter, bound
  with target `loop`                          s_cbranch_scc1 loop_body
                                              s_branch loop_exit
                                loop_body:
_loop_end counter, step         loop_latch:   s_add_u32 counter, counter, step
  with target `loop`                          s_branch loop_header
                                loop_exit:
_raw_asm                        the lines of its comment, read as this IR's text, so that liveness, waits and
                                hazards see them like everything else
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.errors import ControlFlowError, OpcodeError, OperandError
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.operands import VirtualReg
from optimizer.kernels.amdgpu.text import parse
from optimizer.process.work_limit import spend


def expand_control(program: Program) -> Program:
    """ControlFlowError for loops that are not closed in the order of nesting; FormatError for unreadable raw text."""
    body: list[Item] = []
    open_loops: list[str] = []
    counters: set[VirtualReg] = set()
    for place, item in enumerate(program.body):
        where = program.where(place)
        if not isinstance(item, Instruction):
            body.append(item)
        elif item.name == "_raw_asm":
            body += _of_line(item, _raw(item, where))
        elif item.name == "_preload_branch":
            raise OpcodeError(
                "kernel arguments are not preloaded, so that there is nothing for _preload_branch to skip",
                node=where,
                alternatives=("s_load_dwordx2 from s[0:1]",),
            )
        elif item.name == "_loop_begin":
            body += _of_line(item, _begin(item, open_loops, where))
        elif item.name == "_loop_end":
            body += _of_line(item, _end(item, open_loops, where))
            counters.update(r for r in item.used[:1] if isinstance(r, VirtualReg))
        else:
            body.append(item)
    if open_loops:
        raise ControlFlowError(f"loop '{open_loops[-1]}' has no _loop_end", node=program.name)
    return replace(program, body=tuple(body), redefinable=program.redefinable | counters)


def _of_line(item: Instruction, made: Iterable[Item]) -> Iterable[Item]:
    """What stands for an item, with the item's line."""
    return (replace(i, line=item.line) for i in made)


def _stem(item: Instruction, where: str) -> str:
    if not item.target or len(item.uses) != 2:
        raise OperandError(f"{item.name} has two operands and, as target, the name of its loop", node=where)
    return item.target


def _begin(item: Instruction, open_loops: list[str], where: str) -> list[Item]:
    stem = _stem(item, where)
    open_loops.append(stem)
    return [
        Label(f"{stem}_header"),
        Instruction("s_cmp_lt_u32", (), item.uses, comment=item.comment),
        Instruction("s_cbranch_scc1", target=f"{stem}_body"),
        Instruction("s_branch", target=f"{stem}_exit"),
        Label(f"{stem}_body"),
    ]


def _end(item: Instruction, open_loops: list[str], where: str) -> list[Item]:
    stem = _stem(item, where)
    if not open_loops or open_loops.pop() != stem:
        raise ControlFlowError(f"_loop_end of '{stem}' does not close the innermost loop", node=where)
    counter, step = item.uses
    return [
        Label(f"{stem}_latch"),
        Instruction("s_add_u32", (counter,), (counter, step), comment=item.comment),
        Instruction("s_branch", target=f"{stem}_header"),
        Label(f"{stem}_exit"),
    ]


def _raw(item: Instruction, where: str) -> tuple[Item, ...]:
    try:
        spend(item.comment.count("\n") + 1)
        return parse(item.comment).body
    except InputError as error:
        found = f"raw text, {error}" if error.node else f"raw text: {error}"
        raise type(error)(found, node=where, limit=error.limit) from None
