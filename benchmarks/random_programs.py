"""Random kernels for the register allocator: branches, nested loops, ranges up to 16 registers, a given pressure."""

from __future__ import annotations

import random
from dataclasses import dataclass

from gfx942.builder import KernelBuilder

from optimizer.kernels.amdgpu.ir import Program
from optimizer.kernels.amdgpu.operands import PhysicalReg, RegOperand, RegRange, VirtualReg

THREAD = PhysicalReg("v", 0)
BUFFER = RegRange(PhysicalReg("s", 4), 4)


@dataclass(frozen=True)
class Wishes:
    """What a random program is like."""

    steps: int = 60
    pressure: int = 40
    """VGPRs that it tries to keep live."""
    sizes: tuple[int, ...] = (1, 1, 1, 1, 2, 2, 3, 4, 4)
    alignments: tuple[int, ...] = (2,)
    depth: int = 3
    """Of nested branches and loops."""
    copies: bool = True


def random_program(seed: int, wishes: Wishes) -> Program:
    """Reads v0 and s[0:1]; v0 and s0, s1 are reserved."""
    writer = _Writer(random.Random(seed), wishes)
    writer.region(wishes.steps, 0)
    writer.retire_all(writer.open)
    writer.b.s_endpgm()
    return writer.b.program(reserved_vgprs=frozenset({0}), reserved_sgprs=frozenset({0, 1}))


class _Writer:
    def __init__(self, rng: random.Random, wishes: Wishes) -> None:
        self.b = KernelBuilder("random")
        self._rng = rng
        self._wishes = wishes
        self.open: list[RegOperand] = []
        """Values that a later instruction still reads; they dominate the place where the program goes on."""

    def region(self, steps: int, depth: int) -> None:
        """Straight code, with branches and loops in it."""
        while steps > 0:
            inner = min(steps, self._rng.randint(4, 12))
            kind = self._rng.random()
            if depth < self._wishes.depth and kind < 0.08:
                self._loop(inner, depth)
                steps -= inner
            elif depth < self._wishes.depth and kind < 0.2:
                self._branch(inner, depth, kind < 0.14)
                steps -= inner
            else:
                self._step()
                steps -= 1

    def _loop(self, steps: int, depth: int) -> None:
        counter = self.b.s_mov_b32(0)
        header, leave = self.b.new_label("header"), self.b.new_label("exit")
        self.b.label(header)
        self.b.s_cmp_lt_u32(counter, self._rng.randint(2, 9))
        self.b.s_cbranch_scc0(leave)
        self._inside(steps, depth)
        self.b.s_add_u32(counter, 1, dst=counter)
        self.b.s_branch(header)
        self.b.label(leave)

    def _branch(self, steps: int, depth: int, other: bool) -> None:
        otherwise, end = self.b.new_label("else"), self.b.new_label("end")
        self.b.s_cmp_eq_u32(PhysicalReg("s", 0), self._rng.randint(0, 9))
        self.b.s_cbranch_scc1(otherwise)
        self._inside(steps, depth)
        if other:
            self.b.s_branch(end)
        self.b.label(otherwise)
        if other:
            self._inside(steps, depth)
            self.b.label(end)

    def _inside(self, steps: int, depth: int) -> None:
        """What begins inside ends inside: it does not dominate what follows."""
        before = list(self.open)
        self.region(steps, depth + 1)
        inner = [v for v in self.open if v not in before]
        if self._rng.random() < 0.7:
            self.retire_all(inner)
        self.open = [v for v in before if v in self.open]

    def _step(self) -> None:
        used = sum(_width(v) for v in self.open)
        size = self._rng.choice(self._wishes.sizes)
        if used + size <= self._wishes.pressure and self._rng.random() < 0.75:
            self.open.append(self._define(size))
        elif self.open:
            value = self._rng.choice(self.open)
            if self._rng.random() < 0.7:
                self.open.remove(value)
            self._read(value)

    def retire_all(self, values: list[RegOperand]) -> None:
        for value in values:
            self._read(value)

    def _single(self) -> RegOperand:
        """A single register: a value, a component of one, or v0."""
        if not self.open:
            return THREAD
        value = self._rng.choice(self.open)
        return value.component(self._rng.randrange(value.count)) if isinstance(value, RegRange) else value

    def _define(self, size: int) -> RegOperand:
        value = self.b.vgpr(size) if size == 1 else self.b.vgpr(size, self._rng.choice(self._wishes.alignments))
        if size == 1:
            if self._wishes.copies and self._rng.random() < 0.25:
                return self.b.v_mov_b32(self._single(), dst=value)  # type: ignore[no-any-return]
            return self.b.v_add_u32(self._single(), self._single(), dst=value)  # type: ignore[no-any-return]
        if size == 16:
            pairs = [v for v in self.open if _width(v) == 2]
            a = self._rng.choice(pairs) if pairs else self.b.ds_read_b64(THREAD)
            same = [v for v in self.open if _width(v) == 16]
            c = self._rng.choice(same) if same and self._rng.random() < 0.5 else 0
            return self.b.v_mfma_f32_32x32x8_f16(a, a, c, dst=value)  # type: ignore[no-any-return]
        if size == 2:
            return self.b.ds_read_b64(self._single(), dst=value)  # type: ignore[no-any-return]
        name = f"buffer_load_dwordx{size}"
        return self.b.emit(name, self._single(), BUFFER, 0, dst=value)  # type: ignore[no-any-return]

    def _read(self, value: RegOperand) -> None:
        if isinstance(value, VirtualReg):
            self.b.ds_write_b32(THREAD, value)
        elif isinstance(value, RegRange) and self._rng.random() < 0.3:
            for i in sorted(self._rng.sample(range(value.count), min(2, value.count))):
                self.b.ds_write_b32(THREAD, value.component(i))
        elif isinstance(value, RegRange):
            for i in range(0, value.count, 4):
                part = value.sub_range(i, min(4, value.count - i), value.alignment)
                self.b.emit(f"buffer_store_dwordx{part.count}", part, THREAD, BUFFER, 0)


def _width(value: RegOperand) -> int:
    return value.count if isinstance(value, RegRange) else 1
