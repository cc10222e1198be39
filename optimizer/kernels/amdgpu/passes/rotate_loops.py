"""Loops that test at the top test at the bottom, behind a first test at the top: two branches less per round.

    header:  s_cmp ..., s_cbranch body     header:  s_cmp ..., s_cbranch body
             s_branch exit                          s_branch exit
    body:    ...                           body:    ...
             s_branch header                        s_cmp ..., s_cbranch body
    exit:                                  exit:

Only where the header does nothing but compare scalars. A loop without branches inside then is a single block, which is
what can be pipelined.
"""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.kernels.amdgpu.cfg import ControlFlowGraph, build_cfg
from optimizer.kernels.amdgpu.ir import Instruction, Item, Label, Program
from optimizer.kernels.amdgpu.opcodes import opcode
from optimizer.process.work_limit import spend


def rotate_loops(program: Program) -> Program:
    """On virtual or physical registers."""
    cfg = build_cfg(program)
    headers = {header.label: header for b in range(len(cfg.blocks)) if (header := _header(program, cfg, b))}
    rotated: set[str] = set()
    body: list[Item] = []
    for place, item in enumerate(program.body):
        header = headers.get(item.target or "") if isinstance(item, Instruction) and item.name == "s_branch" else None
        if header is None or not cfg.flow.dominates(header.block, cfg.block_of[place]):
            body.append(item)
            continue
        spend(len(header.test))
        rotated.add(header.body)
        body += header.test
        following = program.body[place + 1] if place + 1 < len(program.body) else None
        if not (isinstance(following, Label) and following.name == header.exit):
            body.append(Instruction("s_branch", target=header.exit))
    return _without_idle_labels(program.with_body(tuple(body)), rotated) if rotated else program


@dataclass(frozen=True)
class _Header:
    block: int
    label: str
    test: tuple[Instruction, ...]
    """The comparison, and the branch to the body."""
    body: str
    exit: str


def _header(program: Program, cfg: ControlFlowGraph, block: int) -> _Header | None:
    """A block that compares and branches, followed by a branch to elsewhere."""
    items = [program.body[place] for place in cfg.blocks[block].items]
    if block not in cfg.flow.reachable or len(items) < 2 or block + 1 == len(cfg.blocks):
        return None
    label, *test = items
    leaving = [program.body[place] for place in cfg.blocks[block + 1].items]
    if not isinstance(label, Label) or len(leaving) != 1:
        return None
    instructions = tuple(i for i in test if isinstance(i, Instruction) and i.name != "_comment")
    if not instructions or any(opcode(i.name).format != "SOPC" for i in instructions[:-1]):
        return None
    branch, (exit_,) = instructions[-1], leaving
    if not (isinstance(exit_, Instruction) and exit_.name == "s_branch" and exit_.target):
        return None
    if not opcode(branch.name).is_conditional or not branch.target:
        return None
    return _Header(block, label.name, instructions, branch.target, exit_.target)


def _without_idle_labels(program: Program, rotated: set[str]) -> Program:
    """Without the labels inside rotated loops to which nothing leads."""
    targets = {item.target for _, item in program.instructions}
    body: list[Item] = []
    inside = False
    for item in program.body:
        if isinstance(item, Label):
            inside = item.name in rotated or (inside and item.name not in targets)
            if inside and item.name not in targets:
                continue
        body.append(item)
    return program.with_body(tuple(body))
