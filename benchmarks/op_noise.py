"""How exact ops are, by fidelity, width of sums and depth: measured in the emulation, and written for planning.

    python benchmarks/op_noise.py [--write]

What the table holds is in `optimizer/precision/measured.py`. The emulation's errors are those of the simulator, as
`benchmarks/emulated_ops.py` shows. Without `--write` the table is compared with the one in force, and the end is 1
where they differ.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
from emulation_cases.cases import WITH_FUNCTIONS, Case, case
from emulation_cases.measuring import error_of

from optimizer.ir.compute_config import ComputeConfig
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import CostClass
from optimizer.ir.vocabulary import opdef
from optimizer.kernels.tensix.rounding import Array, round_bf16
from optimizer.precision.blocks import TILE, Blocks
from optimizer.precision.measured import FILE
from optimizer.precision.storing import rounding_noise
from optimizer.values.emulation.emulated import computed, emulated
from optimizer.values.emulation.kinds import Step
from optimizer.values.emulation.products import ONE_BLOCK, Sums, product
from optimizer.values.emulation.units import Units, converted
from optimizer.values.operands import random_operands
from optimizer.values.reference import reference

BF16, F32 = DType.BF16, DType.F32
FIDELITIES = ("lofi", "hifi2", "hifi3", "hifi4")
SPELLED = {"lofi": "LoFi", "hifi2": "HiFi2", "hifi3": "HiFi3", "hifi4": "HiFi4"}
SIDE = 128
"""Rows and columns of a product."""
DEPTHS = (1, 2, 4, 8, 16, 32, 64, 128)
"""Tiles that are added up in a row."""
BLOCKS = 8
"""Of a product whose partial sums the packer adds."""
SMALL = (2e-4, 2e-7)
"""A gain and a variance below which an op is as good as exact."""
Row = dict[str, Any]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    args = parser.parse_args()
    made = {"sums": list(sums()), "packing": list(packing()), "ops": list(ops())}
    text = "{\n" + ",\n".join(f'  "{name}": {_rows(rows)}' for name, rows in made.items()) + "\n}\n"
    if args.write:
        FILE.write_text(text)
        return 0
    same = FILE.read_text() == text
    print("the table in force is the measured one" if same else "the table in force is another one: --write")
    return 0 if same else 1


def _rows(rows: list[Row]) -> str:
    return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]"


def _number(value: float) -> float:
    return float(f"{value:.3g}")


def _noise(got: Array, exact: Any, without: float = 0.0) -> Row:
    error = error_of(got, exact)
    return {"gain": _number(error.gain), "variance": _number(max(0.0, error.variance - without))}


# -- products -------------------------------------------------------------------------------------------------
def _operands(depth: int) -> tuple[Array, Array]:
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((SIDE, depth)), rng.standard_normal((depth, SIDE))
    return round_bf16(a.astype(np.float32)), round_bf16(b.astype(np.float32))


def sums() -> Iterator[Row]:
    """Sums in registers of 16 bits against the same products in 32 bits: in a row, and in blocks."""
    ways = {"alone": None, "reloaded": True, "added": False}
    for fidelity in SPELLED.values():
        for way, last_reloads in ways.items():
            for tiles in DEPTHS if last_reloads is None else DEPTHS[:6]:
                depth = tiles * TILE * (1 if last_reloads is None else BLOCKS)
                a, b = _operands(depth)
                blocks = ONE_BLOCK if last_reloads is None else Blocks(tiles, True, last_reloads)
                wide, narrow = (product(a, b, (BF16, BF16), Sums(fidelity, w, blocks)) for w in (True, False))
                yield {"fidelity": fidelity, "way": way, "tiles": tiles, **_noise(narrow, wide)}


def packing() -> Iterator[Row]:
    """The packer against the numbers that it packs: results of 32 bits and of 16, of which half are ties, casts, and
    block floats that were transposed."""
    numbers = np.random.default_rng(0).standard_normal((4096, 512)).astype(np.float32)
    for dtype in (DType.BFP8_B, DType.BFP4_B):
        for wide in (True, False):
            given = numbers if wide else round_bf16(numbers)
            known = {"dtype": dtype.value, "wide": wide}
            yield {**known, "way": "result", **_noise(Units("HiFi4", wide).packed(given, dtype), given)}
            step = Step("ttnn.typecast", {}, (F32 if wide else BF16,), (dtype,))
            yield {**known, "way": "cast", **_noise(computed(step, [given])[0], given)}
        turned = converted(numbers, dtype).T
        moved = Units("HiFi4", False).packed(turned, dtype)
        yield {"dtype": dtype.value, "wide": False, "way": "turned", **_noise(moved, turned)}


# -- other ops ------------------------------------------------------------------------------------------------
def ops() -> Iterator[Row]:
    """Ops of bf16, what storing the result in bf16 does taken off."""
    for name in sorted({*WITH_FUNCTIONS, "hardtanh", "selu", "softplus", "elu", "cbrt", "log1p", "expm1"}):
        yield from _seen(name, [case(name, ((1, 1, 256, 256), BF16))], {})
    for name in ("add", "subtract", "multiply", "divide", "squared_difference", "pow"):
        yield from _seen(name, [case(name, *[((1, 1, 256, 256), BF16)] * 2)], {})
    yield from _seen("rotary_embedding", [_rotary()], {})
    for fidelity in FIDELITIES:
        for wide in (False, True):
            compute = ComputeConfig(fidelity, wide)
            stated = {"fidelity": SPELLED[fidelity], "wide": wide}
            for depth in (64, 256, 1024, 4096):
                for name, made in _deep(depth, compute):
                    yield from _seen(name, [made], {**stated, "depth": depth}, always=True)
                hasty = ComputeConfig(fidelity, wide, math_approx_mode=True)
                made = case("softmax", ((1, 1, 64, depth), BF16), compute=hasty, dim=-1)
                yield from _seen("softmax", [made], {**stated, "approx": True, "depth": depth}, always=True)
            for name, made in _others(compute):
                yield from _seen(name, [made], stated, always=True)


def _rotary() -> Case:
    table = ((1, 1, 256, 64), BF16)
    return case("rotary_embedding", ((1, 4, 256, 64), BF16), table, table, compute=ComputeConfig("hifi3", True))


def _others(compute: ComputeConfig) -> Iterator[tuple[str, Case]]:
    """Ops that are as exact whatever they add up."""
    row = ((96,), BF16)
    yield "group_norm", case("group_norm", ((1, 1, 1024, 96), BF16), row, row, compute=compute, num_groups=8)
    window = {"batch_size": 1, "input_height": 32, "input_width": 32, "kernel_size": (3, 3), "stride": (1, 1),
              "padding": (0, 0, 0, 0), "channels": 64}  # fmt: skip
    yield "avg_pool2d", case("avg_pool2d", ((1, 1, 1024, 64), BF16), rows=True, compute=compute, **window)


def _deep(depth: int, compute: ComputeConfig) -> Iterator[tuple[str, Case]]:
    """Ops whose sums run over so many elements."""
    x, row = ((1, 1, 64, depth), BF16), ((1, 1, 1, depth), BF16)
    yield "softmax", case("softmax", x, compute=compute, dim=-1)
    yield "layer_norm", case("layer_norm", x, row, row, compute=compute)
    yield "rms_norm", case("rms_norm", x, row, compute=compute)
    for name in ("sum", "mean"):
        yield name, case(name, ((1, 1, 256, depth), BF16), compute=compute, dim=-1)
    if depth <= 1024:
        q, keys = ((1, 2, 64, 64), BF16), ((1, 2, depth, 64), BF16)
        yield "scaled_dot_product_attention", case("scaled_dot_product_attention", q, keys, keys, compute=compute)


def usual_operands(made: Case) -> list[Array]:
    """Random ones; scales of norms are near 1, shifts small, as in trained models."""
    operands = random_operands(made.query, 0)
    if opdef(made.query.op).cost_class is CostClass.NORM:
        operands[1:] = [x / 8 + (1 - k) for k, x in enumerate(operands[1:])]
    return operands


def _seen(name: str, made: list[Case], keys: Row, always: bool = False) -> Iterator[Row]:
    for one in made:
        operands = [converted(x, BF16) for x in usual_operands(one)]
        got, exact = emulated(one.query, operands)[0], reference(one.query, operands)[0].value
        row = _noise(got, exact, rounding_noise(BF16).variance)
        if always or abs(row["gain"]) > SMALL[0] or row["variance"] > SMALL[1]:
            yield {"op": name, **keys, **row}


if __name__ == "__main__":
    raise SystemExit(main())
