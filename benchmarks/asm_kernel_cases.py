"""The kernels of `gfx942/library` on random data, with what numpy makes of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from gfx942.library.copy import copy
from gfx942.library.elementwise import scale_add_relu
from gfx942.library.gemm import gemm
from gfx942.library.gemm_shape import GemmShape
from gfx942.library.kernel import LibraryKernel
from gfx942.library.reduction import GROUP, PER_LANE, THREADS, partial_sums

from optimizer.kernels.amdgpu.pipeline import Assembly, AssemblyOptions, build
from optimizer.kernels.amdgpu.witness.interpreter import Run, run_kernel
from optimizer.kernels.amdgpu.witness.interpreter.run import Observer

Arrays = Mapping[str, Any]
# No kernel of the library stores to what it loads.
SCHEDULED = AssemblyOptions(loads_at_barriers=False)
WRITTEN = replace(SCHEDULED, schedule=False)
"""In the order in which the kernels are written, which takes fewest registers and instructions."""


@dataclass(frozen=True)
class Upstream:
    """What wave's allocator takes for the same shape (commit 032f8c2e); exact: most registers live at once."""

    exact_vgprs: int
    peak_vgprs: int
    exact_sgprs: int
    peak_sgprs: int
    instructions: int


@dataclass(frozen=True)
class Case:
    """A kernel, its arguments, and the buffers expected with the error allowed per element (None: no error)."""

    name: str
    kernel: LibraryKernel
    arguments: Callable[[np.random.Generator], dict[str, Any]]
    expected: Callable[[Arrays], dict[str, tuple[Any, Any]]]
    upstream: Upstream | None = None

    def build(self, options: AssemblyOptions = WRITTEN) -> Assembly:
        return build(self.kernel.program, options)

    def run(self, text: str, seed: int = 0, observe: Observer | None = None) -> Run:
        """ExecutionError if the text's meaning is not defined."""
        kernel = self.kernel
        arguments = self.arguments(np.random.default_rng(seed))
        return run_kernel(text, kernel.program.name, kernel.grid, kernel.workgroup, arguments, observe=observe)

    def error(self, text: str, seed: int = 0) -> str | None:
        """What is wrong with the buffers after a run, None if nothing is."""
        found = self.run(text, seed).buffers
        arguments = self.arguments(np.random.default_rng(seed))
        for name, (values, allowed) in self.expected(arguments).items():
            off = np.abs(found[name].astype(np.float64) - values)
            wrong = ~(off <= (0 if allowed is None else allowed))
            if wrong.any():
                return f"{name}: {np.count_nonzero(wrong)} of {wrong.size} elements wrong, by up to {off.max():.3g}"
        return None


# -- copy, elementwise, sums ---------------------------------------------------------------------------------
def copy_case(rows: int, columns: int, upstream: Upstream | None = None) -> Case:
    def arguments(random: np.random.Generator) -> dict[str, Any]:
        a = random.standard_normal((rows, columns)).astype(np.float16)
        return {"a": a, "b": np.zeros_like(a)}

    return Case(
        f"copy {rows}x{columns}", copy(rows, columns), arguments, lambda found: {"b": (found["a"], None)}, upstream
    )


def chain_case(elements: int) -> Case:
    def arguments(random: np.random.Generator) -> dict[str, Any]:
        x, y = random.standard_normal((2, elements)).astype(np.float32)
        return {"x": x, "y": y, "out": np.zeros_like(x), "scale": np.float32(1.7)}

    def expected(found: Arrays) -> dict[str, tuple[Any, Any]]:
        return {"out": (np.maximum(found["scale"] * found["x"] + found["y"], np.float32(0)), None)}

    return Case(f"max(s*x + y, 0), {elements}", scale_add_relu(elements), arguments, expected)


def sums_case(elements: int) -> Case:

    groups = -(-elements // GROUP)

    def arguments(random: np.random.Generator) -> dict[str, Any]:
        return {"x": random.standard_normal(elements).astype(np.float32), "out": np.zeros(groups, np.float32)}

    def expected(found: Arrays) -> dict[str, tuple[Any, Any]]:
        x = np.zeros(groups * GROUP, np.float32)
        x[:elements] = found["x"]
        lanes = x.reshape(groups, THREADS, PER_LANE)
        total = ((lanes[..., 0] + lanes[..., 1]) + lanes[..., 2]) + lanes[..., 3]
        while total.shape[1] > 1:
            half = total.shape[1] // 2
            total = total[:, :half] + total[:, half:]
        return {"out": (total[:, 0], None)}

    return Case(f"sums of 1024, {elements}", partial_sums(elements), arguments, expected)


# -- matrix products -------------------------------------------------------------------------------------------
def gemm_case(name: str, shape: GemmShape, upstream: Upstream | None = None) -> Case:
    def arguments(random: np.random.Generator) -> dict[str, Any]:
        a, b = (random.standard_normal((rows, shape.k)).astype(np.float32) for rows in (shape.m, shape.n))
        return {"a": _narrow(a, shape), "b": _narrow(b, shape), "c": np.zeros((shape.m, shape.n), np.float32)}

    def expected(found: Arrays) -> dict[str, tuple[Any, Any]]:
        a, b = (_wide(found[operand], shape) for operand in "ab")
        # Products of 16-bit floats are exact in float32; the sum rounds once per MFMA.
        return {"c": (a @ b.T, 2.0**-22 * shape.k / 4 * (abs(a) @ abs(b).T))}

    return Case(name, gemm(shape), arguments, expected, upstream)


def _narrow(values: Any, shape: GemmShape) -> Any:
    """float16, or the upper halves of float32 as words."""
    return values.astype(np.float16) if shape.element == "f16" else (values.view(np.uint32) >> 16).astype(np.uint16)


def _wide(values: Any, shape: GemmShape) -> Any:
    if shape.element == "f16":
        return values.astype(np.float64)
    return (values.astype(np.uint32) << 16).view(np.float32).astype(np.float64)


def cases() -> tuple[Case, ...]:
    """The shapes that wave was measured with, then the rest."""
    return (
        copy_case(16, 16, Upstream(9, 12, 10, 12, 20)),
        gemm_case("mma 16x16x16", GemmShape(16, 16, 16), Upstream(7, 16, 14, 16, 44)),
        gemm_case("mma 64x64x16", GemmShape(64, 64, 16), Upstream(8, 16, 14, 18, 52)),
        gemm_case("gemm 64, bk16, 1 wave", GemmShape(64, 64, 64), Upstream(12, 16, 15, 19, 66)),
        gemm_case("gemm 64, bk32, 1 wave", GemmShape(64, 64, 64, block_k=32), Upstream(16, 20, 15, 19, 76)),
        gemm_case(
            "gemm 64x64x128, bk64, 4 waves", GemmShape(64, 64, 128, 32, 32, 64, 2, 2), Upstream(26, 30, 15, 19, 97)
        ),
        copy_case(37, 52),
        chain_case(1024),
        chain_case(3001),
        sums_case(1024),
        sums_case(3001),
        gemm_case("mma 16x16x16, no LDS", GemmShape(16, 16, 16, staged=False)),
        gemm_case("gemm 64, bk32, no LDS", GemmShape(64, 64, 64, block_k=32, staged=False)),
        gemm_case("gemm 64x64x128, 4 tiles", GemmShape(64, 64, 128, 32, 32, 64)),
        gemm_case("gemm 64x128x64, 4 waves x 4", GemmShape(64, 128, 64, 64, 64, 32, 2, 2)),
        gemm_case("gemm 64x64x64, bf16, 2 waves", GemmShape(64, 64, 64, 32, 32, 32, 2, 1, element="bf16")),
        gemm_case("gemm 50x44x72, 4 waves", GemmShape(50, 44, 72, 32, 32, 64, 2, 2)),
        gemm_case("gemm 50x45x76, 4 tiles", GemmShape(50, 45, 76, 32, 32, 16)),
        gemm_case("gemm 17x70x8, no LDS", GemmShape(17, 70, 8, 16, 64, 32, 1, 2, staged=False)),
    )
