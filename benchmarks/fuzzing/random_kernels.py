"""Fuzz target of registers: random kernels for AMD GPUs that may run, most with fewer registers than they need.

Constants, ranges, matrix products, masks, branches and loops.

One wave reads `x` and stores to `y` what it computes; every register is written before it is read, in every lane that
reads it. What a kernel stores does not depend on how many registers it may take.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
from gfx942.builder import KernelBuilder

from fuzzing.commands import payload_of, run_command
from fuzzing.harness import Case
from optimizer.kernels.amdgpu.abi import KERNARG, THREAD_ID
from optimizer.kernels.amdgpu.ir import Argument, Launch, Program
from optimizer.kernels.amdgpu.operands import EXEC, FILE_SIZES, VCC, RegOperand, RegRange
from optimizer.kernels.amdgpu.pipeline import AssemblyOptions, build
from optimizer.kernels.amdgpu.text import parse, text_of
from optimizer.kernels.amdgpu.witness.interpreter import run_kernel

LANES = 64
SLOTS = 15
"""Words per lane in each of the arrays."""
FILE_LIMITS = {f"max_{file}gprs": size for file, size in FILE_SIZES.items()}


class RandomKernelTarget:
    """`ttopt asm build` of kernels that mostly do not fit, each with what it stores where it has all registers."""

    name = "asm-kernels"
    seconds = 240.0
    memory_bytes = 2 << 30

    def case(self, rng: random.Random) -> Case:
        text = text_of(random_kernel(rng))
        flags = [f for f in ("--allow-spill", "--no-schedule", "--remove-dead-code", "--no-fuse") if rng.random() < 0.4]
        return Case("kernel", payload_of("k.kir", ["asm", "build", "FILE", *flags], text.encode()))

    def run(self, payload: bytes) -> str:
        """AssertionError if the kernel built does not store what it stores with all registers of the hardware."""
        outcome, text = run_command(payload)
        program = parse(payload.partition(b"\n")[2].decode())
        given = replace(program, **FILE_LIMITS)  # type: ignore[arg-type]
        expected = stored(build(given, AssemblyOptions(fuse=False, schedule=False)).text, program.name)
        assert (stored(text, program.name) == expected).all(), "another result than with all registers"
        return outcome


def random_kernel(rng: random.Random) -> Program:
    """A kernel, and the registers that it may take: often too few for anything but spilling, or for that too."""
    kernel = _Kernel(rng)
    kernel.region(rng.choice((3, 6, 12, 25, 60)), 0)
    kernel.finish()
    return kernel.b.program(
        max_vgprs=rng.choice((2, 3, 3, 4, 5, 6, 8, 8, 12, 16, 24, 64, 256)),
        max_sgprs=rng.choice((2, 4, 6, 8, 9, 10, 12, 14, 20, 102)),
        max_agprs=rng.choice((0, 1, 4, 16, 256)),
        reserved_vgprs=frozenset({0} if rng.random() < 0.7 else ()),
    )


def stored(text: str, name: str) -> npt.NDArray[np.uint32]:
    """What one wave of a kernel's text stores. ExecutionError for what the hardware leaves undefined."""
    words = LANES * (SLOTS + 4)
    arguments = {"x": np.arange(words, dtype=np.uint32) * 2654435761, "y": np.zeros(words, np.uint32)}
    return run_kernel(text, name, [1], [LANES], arguments).buffers["y"]


class _Kernel:
    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self.b = b = KernelBuilder("random", Launch((LANES, 1, 1), (Argument("x"), Argument("y"))))
        self._source, self._target = b.s_load_dwordx2(KERNARG, 0), b.s_load_dwordx2(KERNARG, 8)
        self._own = b.v_lshlrev_b32(2, THREAD_ID)
        self._vectors: list[RegOperand] = [self._own]
        """Values that may be read here: they dominate the place, and every lane that is active has written them."""
        self._scalars: list[RegOperand] = [b.s_mov_b32(rng.randrange(1 << 16))]
        self._slot = 0
        self._masked = False

    def region(self, steps: int, depth: int) -> None:
        """Straight code, with branches, loops and masks in it."""
        while steps > 0:
            inner, kind = min(steps, self._rng.randint(2, 10)), self._rng.random()
            nested: Callable[[int, int], None] | None = None
            if depth < 3 and kind < 0.18:
                nested = self._loop if kind < 0.06 else self._branch if kind < 0.12 or self._masked else self._mask
            if nested is not None:
                nested(inner, depth)
            else:
                self._rng.choice(_STEPS)(self)
            steps -= inner if nested is not None else 1

    def finish(self) -> None:
        """Stores much of what is there: it has been live since."""
        for value in self._rng.sample(self._vectors, self._rng.randint(1, len(self._vectors))):
            self._store(value)
        for value in self._rng.sample(self._scalars, self._rng.randint(0, len(self._scalars))):
            self._store(self.b.v_mov_b32(value))
        self.b.s_endpgm()

    # -- control ------------------------------------------------------------------------------------------------------
    def _loop(self, steps: int, depth: int) -> None:
        counter, total = self.b.s_mov_b32(0), self.b.v_mov_b32(self._vector())
        head = self.b.label(self.b.new_label("head"))
        self._inside(steps, depth)
        self.b.v_add_u32(total, self._vector(), dst=total)
        self.b.s_add_u32(counter, 1, dst=counter)
        self.b.s_cmp_lt_u32(counter, self._rng.randint(1, 3))
        self.b.s_cbranch_scc1(head)
        self._vectors.append(total)

    def _branch(self, steps: int, depth: int) -> None:
        otherwise, end = self.b.new_label("else"), self.b.new_label("end")
        result = self.b.vgpr()
        self.b.s_cmp_lt_u32(self._scalar(), self._rng.randrange(1 << 16))
        self.b.s_cbranch_scc0(otherwise)
        self._inside(steps // 2, depth)
        self.b.v_mov_b32(self._vector(), dst=result)
        self.b.s_branch(end)
        self.b.label(otherwise)
        self._inside(steps - steps // 2, depth)
        self.b.v_mov_b32(self._rng.randrange(1 << 32), dst=result)
        self.b.label(end)
        self._vectors.append(result)

    def _mask(self, steps: int, depth: int) -> None:
        self.b.v_cmp_lt_u32(self._vector(), self._vector(), dst=VCC)
        saved = self.b.s_and_saveexec_b64(VCC)
        self._masked = True
        self._inside(steps, depth)
        self._masked = False
        self.b.s_or_b64(EXEC, saved, dst=EXEC)

    def _inside(self, steps: int, depth: int) -> None:
        """What is made inside is not read outside: not every way, not every lane has made it."""
        vectors, scalars = list(self._vectors), list(self._scalars)
        self.region(steps, depth + 1)
        for value in self._vectors[len(vectors) :]:
            if self._rng.random() < 0.6:
                self._store(value)
        self._vectors, self._scalars = vectors, scalars

    # -- straight code ------------------------------------------------------------------------------------------------
    def _vector(self) -> RegOperand:
        return self._rng.choice(self._vectors)

    def _scalar(self) -> RegOperand:
        return self._rng.choice(self._scalars)

    def constant(self) -> None:
        """One in three is read once only, by the instruction behind several of them."""
        made = [self.b.v_mov_b32(self._rng.randrange(1 << self._rng.choice((4, 32)))) for _ in range(3)]
        self._vectors += made[: self._rng.choice((1, 3, 3))]
        self._vectors.append(self.b.v_add3_u32(*made))

    def scalar(self) -> None:
        kind = self._rng.random()
        if kind < 0.4:
            self._scalars.append(self.b.s_mov_b32(self._rng.randrange(1 << 32)))
        elif kind < 0.7:
            self._scalars.append(self.b.s_add_u32(self._scalar(), self._scalar()))
        else:
            loaded = self.b.s_load_dwordx4(self._source, 16 * self._rng.randrange(8))
            self._scalars += [loaded.component(n) for n in range(self._rng.randint(1, 4))]

    def vector(self) -> None:
        kind, b = self._rng.random(), self.b
        if kind < 0.3:
            self._vectors.append(b.v_add_u32(self._vector(), self._vector()))
        elif kind < 0.4:
            self._vectors.append(b.v_add3_u32(self._vector(), self._vector(), self._vector()))
        elif kind < 0.5:
            self._vectors.append(b.v_add_u32(self._scalar(), self._vector()))
        elif kind < 0.6:
            self._vectors.append(b.v_fmac_f32(self._vector(), self._vector(), self._vector()))
        elif kind < 0.7:
            self._vectors.append(b.v_lshlrev_b32(self._rng.randrange(32), self._vector()))
        elif kind < 0.8:
            b.v_cmp_lt_u32(self._vector(), self._vector(), dst=VCC)
            self._vectors.append(b.v_cndmask_b32(self._vector(), self._vector(), VCC))
        else:
            self._vectors.append(b.v_mov_b32(self._vector()))

    def load(self) -> None:
        width = self._rng.choice((1, 2, 2, 4))
        name = "global_load_dword" + (f"x{width}" if width > 1 else "")
        found = self.b.emit(name, self._own, self._source, offset=4 * self._rng.randrange(8) * width)
        self._vectors += [found.component(n) for n in range(width)] if isinstance(found, RegRange) else [found]

    def product(self) -> None:
        """Matrix products ignore the mask, so they stand where all lanes are active."""
        if self._masked:
            return self.vector()
        pair = self.b.vgpr(2)
        for n in (0, 1):
            self.b.v_mov_b32(self._vector(), dst=pair.component(n))
        first = self.b.v_mfma_f32_16x16x16_f16(pair, pair, 0)
        last = self.b.v_mfma_f32_16x16x16_f16(pair, pair, first) if self._rng.random() < 0.5 else first
        self._vectors += [(last if n else first).component(n) for n in range(4)]
        return None

    def store(self) -> None:
        self._store(self._vector())
        if self._rng.random() < 0.4 and len(self._vectors) > 2:
            self._vectors.pop(self._rng.randrange(1, len(self._vectors)))

    def _store(self, value: RegOperand) -> None:
        self.b.global_store_dword(self._own, value, self._target, offset=4 * LANES * self._slot)
        self._slot = (self._slot + 1) % SLOTS


_STEPS: tuple[Callable[[_Kernel], None], ...] = (
    _Kernel.constant, _Kernel.constant, _Kernel.scalar, _Kernel.scalar, _Kernel.vector, _Kernel.vector, _Kernel.vector,
    _Kernel.load, _Kernel.product, _Kernel.store,
)  # fmt: skip
