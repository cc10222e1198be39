"""Element-wise ops in the TTNN dialect."""

from __future__ import annotations

from typing import Any

from optimizer.export.mlir.configs import activation_text
from optimizer.export.mlir.spelling import Number, Operand, Rule, Said, Site, told
from optimizer.export.mlir.text import boolean, quoted, real
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.opdef import ON_HOST


def _typecast(site: Site) -> tuple[Said, ...]:
    """A core's; where the host converts, an attribute says so."""
    return (Said(site.op.op, site.operands, {}, {ON_HOST: boolean(True)} if site.attrs[ON_HOST] else {}),)


def _clamp(site: Site) -> tuple[Said, ...]:
    """An absent bound is an infinite one."""
    low, high = site.attrs["min"], site.attrs["max"]
    bounds = {
        "min": real(float("-inf") if low is None else low),
        "max": real(float("inf") if high is None else high),
    }
    return (Said("ttnn.clamp_scalar", site.operands, bounds),)


def _binary(name: str) -> Rule:
    """Fused activations are attributes: of August 2026 none of the dialect's, later ones that it demands."""

    def rule(site: Site) -> tuple[Said, ...]:
        scalar = site.attrs["scalar"]
        operands: tuple[Operand, ...] = site.operands
        if scalar is not None and len(site.inputs) == 1:
            operands = (0, Number(float(scalar), site.inputs[0].dtype, site.rank))
        fused = {key: _activations(site.attrs.get(key) or ()) for key in ("activations", *OPERAND_ACTIVATIONS)}
        return (Said(name, operands, {}, fused),)

    return rule


def _activations(names: Any) -> str:
    shown = [activation_text(name) or quoted(name) for name in names]
    return f"[{', '.join(shown)}]"


def _where(site: Site) -> tuple[Said, ...]:
    """What is chosen are tensors; numbers are filled into some."""
    chosen: list[Operand] = list(site.operands[1:])
    dtype = site.outputs[0].dtype
    for key in ("x", "y"):
        if site.attrs[key] is not None:
            position = 0 if key == "x" else 1
            chosen.insert(min(position, len(chosen)), Number(float(site.attrs[key]), dtype, site.rank))
    return (Said("ttnn.where", (0, *chosen)),)


_PLAIN = (
    "gelu", "silu", "sigmoid", "tanh", "relu6", "hardsigmoid", "mish", "cbrt", "sin", "cos", "atan", "asinh", "erf",
    "erfc", "floor", "ceil", "sign", "logical_not", "bitwise_not", "exp", "expm1", "log", "log1p", "sqrt", "rsqrt",
    "reciprocal", "tan", "asin", "acos", "relu", "neg", "abs",
)  # fmt: skip
_BINARY = (
    "add", "subtract", "multiply", "eq", "ne", "lt", "gt", "le", "ge", "logical_and", "logical_or", "logical_xor",
    "maximum", "minimum", "divide", "remainder", "atan2", "bitwise_and", "bitwise_or", "bitwise_xor",
    "logical_right_shift",
)  # fmt: skip
MLIR: dict[str, Rule] = {
    **{f"ttnn.{name}": told() for name in _PLAIN},
    **{f"ttnn.{name}": _binary(f"ttnn.{name}") for name in _BINARY},
    "ttnn.pow": _binary("ttnn.pow_tensor"),
    "ttnn.bitwise_left_shift": _binary("ttnn.logical_left_shift"),
    "ttnn.leaky_relu": told(parameter=("negative_slope", real)),
    "ttnn.pow_scalar": told(rhs=("exponent", real)),
    "ttnn.clamp": _clamp,
    "ttnn.where": _where,
    "ttnn.typecast": _typecast,
}
