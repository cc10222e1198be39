"""Tile ops with values on a device, against the interpreter with the units of the device's chip: cases and comparison.

A case is a kernel of one element type and one width of DST that computes several ops of one tile each, from operands of
both signs with zeros of both, equal pairs, large and small numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
from one_core import run
from sample_kernels import kernel_around

from optimizer.execution.launching import KernelDevice
from optimizer.ir.dtype import DType
from optimizer.kernels.tensix import ttl
from optimizer.kernels.tensix.compute_config import FIDELITIES
from optimizer.kernels.tensix.ir import Op
from optimizer.kernels.tensix.launch import build
from optimizer.kernels.tensix.pipeline import KernelOptions
from optimizer.kernels.tensix.rounding import BLOCK_BITS, FLOATS, Array, rounded
from optimizer.kernels.tensix.tile_forms import Unit
from optimizer.kernels.tensix.tile_ops import TILE_OPS
from optimizer.kernels.tensix.ttl import Block, block_op
from optimizer.kernels.tensix.types import TILE
from optimizer.kernels.tensix.witness.error_bound import Numbers

Results = Mapping[str, Block]
Body = Callable[..., Results]
SHAPE = (TILE, TILE)
EXTREMES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.0, -2.0, 100.0, -7.0, 1e30, -1e30, 1e-30, -1e-30], np.float32)
PER_KERNEL = 14
"""Results of one kernel: more are more code than a core has room for."""


@dataclass(frozen=True)
class Case:
    """One kernel."""

    dtype: DType
    wide: bool
    body: Body
    results: tuple[str, ...]
    operands: tuple[Array, ...]
    fidelity: str = "HiFi4"
    fuse: bool = False

    @property
    def result_dtype(self) -> DType:
        """The packer brings all digits of DST to L1, or those of block floats."""
        return DType.F32 if self.wide else self.dtype

    def program(self) -> Op:
        """Every block is one tile."""
        inputs = [ttl.Tensor((1, 1), self.dtype) for _ in self.operands]
        outputs = [ttl.Tensor((1, 1), self.result_dtype) for _ in self.results]
        config = {"fp32_dest_acc_en": self.wide, "math_fidelity": self.fidelity}
        return kernel_around("tiles", inputs, outputs, lambda *blocks: tuple(self.body(*blocks).values()), **config)


@dataclass(frozen=True)
class Compared:
    """One op of one case."""

    op: str
    elements: int
    exact: int
    """Equal bit for bit."""
    ulps: float
    """Largest distance in units of the last place that DST keeps, less what is allowed absolutely."""

    bound: float
    """What is stated for the op."""

    @property
    def right(self) -> bool:
        return self.ulps <= self.bound


# -- how near functions come ---------------------------------------------------------------------------------
@dataclass(frozen=True)
class Approximation:
    """How far a function may be from its exact value, rounded as its kernel rounds: units in the last place of what DST
    holds, of 16 and of 32 bits, and beside these an absolute error. Operands are up to 8 in magnitude."""

    narrow: float
    wide: float
    absolute: float = 0.0


EXACT = Approximation(0.0, 0.0)
_NEAR = Approximation(2, 4)
APPROXIMATE: Mapping[str, Approximation] = MappingProxyType(
    {
        **dict.fromkeys(
            (
                "exp", "exp2", "expm1", "log", "log1p", "sqrt", "rsqrt", "cbrt", "recip", "sigmoid", "silu",
                "tanh", "softsign", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "asinh", "acosh",
                "atanh", "div", "atan2",
            ),
            _NEAR,
        ),
        "pow": Approximation(4, 8),
        "logaddexp": Approximation(32, 128),
        "hardsigmoid": Approximation(2, 32),
        "elu": Approximation(2, 16),
        "erf": Approximation(2, 4, 3.5e-3),
        "erfc": Approximation(2, 4, 1e-4),
        "gelu": Approximation(2, 4, 5e-7),
        "gelu_tanh": Approximation(2, 4, 2e-7),
        "fmod": Approximation(2, 4, 3e-7),
        "remainder": Approximation(2, 4, 3e-7),
        "xlogy": Approximation(4, 16, 8 * 4.5e-4),
    }
)  # fmt: skip
"""Ops that tt-metal's kernels approximate, within what was measured on ttsim 1.10.0; all others are exact."""
_ON_BLACKHOLE = {"erfc": Approximation(2, 2**16, 1e-4), "gelu": Approximation(2, 4, 6e-7)}
"""What comes less near there: `erfc` divides by the hardware's reciprocal of 7 bits as it is."""


def approximation(name: str, arch: str) -> Approximation:
    """How near an op comes on a chip."""
    stated = APPROXIMATE.get(name, EXACT)
    return _ON_BLACKHOLE.get(name, stated) if arch == "blackhole" else stated


# -- operands ---------------------------------------------------------------------------------------------
def operands(dtype: DType) -> tuple[Array, Array, Array]:
    """Numbers of many sizes and both signs; the first two begin with every pair of extremes, and have equal ones."""
    generator = np.random.default_rng(0)
    first, second, third = (
        (generator.normal(size=SHAPE) * 2.0 ** generator.integers(-6, 7, SHAPE)).astype(np.float32) for _ in range(3)
    )
    pairs = np.meshgrid(EXTREMES, EXTREMES)
    for tile, extremes in zip((first, second), pairs, strict=True):
        tile.reshape(-1)[: extremes.size] = extremes.reshape(-1)
    second.reshape(-1)[300:400] = first.reshape(-1)[300:400]
    third.reshape(-1)[::7] = 0.0
    return rounded(first, dtype), rounded(second, dtype), rounded(third, dtype)


def moderate(dtype: DType) -> tuple[Array, Array, Array]:
    """Numbers up to 8 for functions that are approximated: two tiles of both signs, one of numbers
    from 1 to 3.5."""
    generator = np.random.default_rng(1)
    drawn = (generator.normal(size=SHAPE) * 2.0 ** generator.integers(-4, 3, SHAPE) for _ in range(2))
    first, second = (rounded(np.clip(x, -8.0, 8.0).astype(np.float32), dtype) for x in drawn)
    return first, second, rounded(1 + np.minimum(np.abs(second), np.float32(2.5)), dtype)


def summed(dtype: DType) -> tuple[Array, ...]:
    """Two tiles to multiply, a scaler of sums and the scaler 1."""
    generator = np.random.default_rng(2)
    tiles = (rounded(generator.normal(size=SHAPE).astype(np.float32), dtype) for _ in range(2))
    return *tiles, rounded(np.full(SHAPE, 0.7, np.float32), dtype), np.ones(SHAPE, np.float32)


# -- cases ------------------------------------------------------------------------------------------------
def _computed(name: str, *tiles: Block) -> Block:
    definition = TILE_OPS[name]
    numbers = {attr: 0.7 + 0.1 * k for k, attr in enumerate(definition.attrs)}
    return block_op(name, *tiles[: definition.arity], **numbers)


def _each(names: Sequence[str]) -> Body:
    return lambda *tiles: {name: _computed(name, *tiles) for name in names}


def _functions(names: Sequence[str]) -> Body:
    """`xlogy` has no value where its second operand is not positive (not even 0 at 0, as by its definition)."""

    def body(a: Block, b: Block, positive: Block) -> Results:
        return {name: _computed(name, a, positive if name == "xlogy" else b) for name in names}

    return body


_IN_DST = tuple(
    name
    for name, op in TILE_OPS.items()
    if all(form.unit is Unit.SFPU for form in op.forms) and op.arity and name not in ("copy_dst", "typecast")
)
_EXACT_IN_DST = tuple(name for name in _IN_DST if name not in APPROXIMATE)
_MOVES = tuple(name for name, op in TILE_OPS.items() if all(form.unit is Unit.UNPACK for form in op.forms))
_BY_FPU = tuple(
    name for name, op in TILE_OPS.items() if any(f.unit is Unit.FPU for f in op.forms) and not op.accumulates
)
_SUMS = tuple(name for name, op in TILE_OPS.items() if op.accumulates)


def _sums(a: Block, b: Block, scaler: Block, ones: Block) -> Results:
    second = {n: ones if "_max_" in n else scaler if n.startswith("reduce_") else b for n in _SUMS}
    return {name: block_op(name, a, second[name]) for name in _SUMS}


def _forms(a: Block, b: Block, _c: Block) -> Results:
    """add, sub and mul with one operand in DST, either one, or both."""
    found: dict[str, Block] = {}
    for name in ("add", "sub", "mul"):
        found[f"{name} of DST and buffer"] = block_op(name, block_op("abs", a), b)
        found[f"{name} of buffer and DST"] = block_op(name, b, block_op("neg", a))
        found[f"{name} of DST"] = block_op(name, block_op("neg", a), block_op("neg", b))
    return found


def _copies(a: Block, b: Block, _c: Block) -> Results:
    """A value that two ops overwrite: one of them gets a copy within DST."""
    largest = block_op("max", a, b)
    return {"copy_dst": block_op("abs", largest), "neg of a copy": block_op("neg", largest)}


def _casts(a: Block, _b: Block, _c: Block) -> Results:
    return {"typecast": ttl.typecast(block_op("neg", a), DType.BF16)}


def _chunks(names: Sequence[str]) -> Iterator[tuple[str, ...]]:
    for first in range(0, len(names), PER_KERNEL):
        yield tuple(names[first : first + PER_KERNEL])


def cases() -> dict[str, Case]:
    """By name: element type, width of DST, what is computed, and the fidelity where it matters."""
    found: dict[str, Case] = {}
    for dtype in FLOATS:
        for wide in (False, True):
            for case_name, case in _cases(dtype, wide):
                found[f"{dtype.value}, DST of {32 if wide else 16} bits, {case_name}"] = case
    return found


def _cases(dtype: DType, wide: bool) -> Iterator[tuple[str, Case]]:
    many = operands(dtype)
    for k, names in enumerate(_chunks(_EXACT_IN_DST)):
        yield f"SFPU {k}", Case(dtype, wide, _each(names), names, many)
    for k, names in enumerate(_chunks(tuple(n for n in _IN_DST if n in APPROXIMATE))):
        yield f"functions {k}", Case(dtype, wide, _functions(names), names, moderate(dtype))
    yield "moves", Case(dtype, wide, _each(_MOVES), _MOVES, many)
    yield "copies", Case(dtype, wide, _copies, ("copy_dst", "neg of a copy"), many, fuse=True)
    if wide:
        yield "casts", Case(dtype, wide, _casts, ("typecast",), many, fuse=True)
    formed = tuple(
        f"{n} of {how}" for n in ("add", "sub", "mul") for how in ("DST and buffer", "buffer and DST", "DST")
    )
    for fidelity in FIDELITIES:
        yield f"FPU {fidelity}", Case(dtype, wide, _each(_BY_FPU), _BY_FPU, many, fidelity)
        yield f"sums {fidelity}", Case(dtype, wide, _sums, _SUMS, summed(dtype), fidelity)
        yield f"forms {fidelity}", Case(dtype, wide, _forms, formed, many, fidelity, fuse=True)


# -- comparison -------------------------------------------------------------------------------------------
def compare(case: Case, device: KernelDevice) -> list[Compared]:
    """Every op of a case. ExecutionError where the device refuses or ends."""
    program = case.program()
    stages: dict[str, Op] = {}
    options = KernelOptions(fuse=case.fuse, board=device.board)
    built = build(program, options, stages.__setitem__)
    names = [v.name for v in program.body.args]
    given = dict(zip(names, case.operands, strict=False))
    got = device.run(built, given)
    buffers = dict(zip(names, (op.result.name for op in program.body.ops if op.name == "ttl.bind_cb"), strict=False))
    wanted = run(stages["insert-inits"], {buffers[n]: x for n, x in given.items()}, device.board.arch)
    results = zip(case.results, names[len(case.operands) :], strict=True)
    return [_compared(op, case, device.board.arch, got[name], wanted[buffers[name]]) for op, name in results]


def _compared(op: str, case: Case, arch: str, got: Array, wanted: Array) -> Compared:
    got = np.ascontiguousarray(got, np.float32)
    known = np.isfinite(wanted) if op in APPROXIMATE else np.ones(wanted.shape, np.bool_)
    same = (got.view(np.uint32) == wanted.view(np.uint32)) | (np.isnan(got) & np.isnan(wanted))
    unit = _last_place(wanted.astype(np.float64), case)
    stated = approximation(op, arch)
    with np.errstate(all="ignore"):
        far = np.maximum(np.abs(got.astype(np.float64) - wanted) - stated.absolute, 0.0) / unit
    far = np.where(same | ~known, 0.0, np.where(np.isnan(far), np.inf, far))
    bound = stated.wide if case.wide else stated.narrow
    return Compared(op, int(known.sum()), int((same & known).sum()), float(far.max()), bound)


def _last_place(values: Numbers, case: Case) -> Numbers:
    """Units in the last place of numbers in DST, or where that is coarser, of those that share their exponent in L1."""
    unit = np.ldexp(1.0, np.maximum(np.frexp(values)[1], -125) - (24 if case.wide else 8))
    if case.result_dtype not in BLOCK_BITS:
        return unit
    largest = np.abs(values).reshape(*values.shape[:-1], -1, 16).max(axis=-1, keepdims=True)
    shared = np.ldexp(1.0, np.frexp(largest)[1] - BLOCK_BITS[case.result_dtype])
    return np.maximum(unit, np.broadcast_to(shared, (*shared.shape[:-1], 16)).reshape(values.shape))
