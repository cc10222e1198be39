"""The sample kernels with arguments, what they must compute, and one-instruction kernels for single lanes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import gfx942_texts
import numpy as np
import numpy.typing as npt

from optimizer.kernels.amdgpu.witness.interpreter import Run, run_kernel

Array = npt.NDArray[Any]


@dataclass(frozen=True)
class Launch:
    """A kernel, its arguments, and the array `result` that one of them must hold afterwards."""

    name: str
    text: str
    grid: tuple[int, ...]
    workgroup: tuple[int, ...]
    arguments: dict[str, Any]
    output: str
    result: Array

    def run(self, text: str | None = None) -> Run:
        return run_kernel(text or self.text, self.name, self.grid, self.workgroup, self.arguments)


def _launches() -> tuple[Launch, ...]:
    random = np.random.default_rng(0)
    floats = random.standard_normal(512).astype(np.float32)
    a, b = (random.standard_normal((16, 16)).astype(np.float16) for _ in range(2))
    m, n = (random.standard_normal((32, 64)).astype(np.float16) for _ in range(2))
    return (
        Launch(
            "copy",
            gfx942_texts.COPY,
            (2,),
            (64,),
            {"source": floats, "target": np.zeros_like(floats), "bytes": np.uint32(floats.nbytes)},
            "target",
            floats,
        ),
        Launch(
            "reduce",
            gfx942_texts.REDUCE,
            (2,),
            (256,),
            {"source": floats, "target": np.zeros(2, np.float32)},
            "target",
            floats.reshape(2, 256).sum(axis=1),
        ),
        Launch(
            "mfma_tile",
            gfx942_texts.MFMA_TILE,
            (1,),
            (64,),
            {"a": a, "b": b, "d": np.zeros((16, 16), np.float32)},
            "d",
            a.astype(np.float32) @ b.T.astype(np.float32),
        ),
        Launch(
            "gemm",
            gfx942_texts.GEMM,
            (1,),
            (256,),
            {"a": m, "b": n, "d": np.zeros((32, 32), np.float32), "k": np.uint32(64)},
            "d",
            m.astype(np.float32) @ n.T.astype(np.float32),
        ),
    )


LAUNCHES = _launches()


def run_body(body: str, arguments: dict[str, Any], *, waves: int = 1, **options: Any) -> Run:
    """Run `body` in a kernel whose first arguments are arrays with their addresses in s[4:5], s[6:7], ...."""
    loads = "".join(
        f"  s_load_dwordx2 s[{4 + 2 * position}:{5 + 2 * position}], s[0:1], {8 * position:#x}\n"
        for position in range(len(arguments))
    )
    settings = {"vgprs": 64, "sgprs": 40, "kernarg": 8 * len(arguments)} | options
    text = gfx942_texts.kernel("body", f"{loads}  s_waitcnt lgkmcnt(0)\n{body}\n  s_endpgm", **settings)
    return run_kernel(text, "body", [1], [64 * waves], arguments, max_steps=5000)


def run_lanes(instructions: str, sources: Sequence[Array], words: int = 1, **options: Any) -> Array:
    """The bits that `instructions` leave in v[8:9]; they find `sources`, 64 lanes each, in v[2:3], v[4:5], v[6:7]."""
    loads, arguments = [], {}
    for position, source in enumerate(sources):
        bits = np.ascontiguousarray(source).view(np.uint32).reshape(64, -1)
        shift, name = (3, "dwordx2") if bits.shape[1] == 2 else (2, "dword")
        first = 2 + 2 * position
        registers = f"v[{first}:{first + 1}]" if shift == 3 else f"v{first}"
        loads += [
            f"v_lshlrev_b32_e32 v1, {shift}, v0",
            f"global_load_{name} {registers}, v1, s[{4 + 2 * position}:{5 + 2 * position}]",
        ]
        arguments[f"source{position}"] = bits
    target = 4 + 2 * len(sources)
    form, registers, shift = ("dwordx2", "v[8:9]", 3) if words == 2 else ("dword", "v8", 2)
    body = [
        *loads,
        "s_waitcnt vmcnt(0)",
        *instructions.strip().splitlines(),
        "s_nop 7",
        f"v_lshlrev_b32_e32 v1, {shift}, v0",
        f"global_store_{form} v1, {registers}, s[{target}:{target + 1}]",
    ]
    arguments["target"] = np.zeros((64, words), np.uint32)
    return run_body("\n".join(body), arguments, **options).buffers["target"]
