"""Calls of elementwise ops."""

from __future__ import annotations

from optimizer.errors import OpModelError
from optimizer.families.elementwise.rows import BINARY, UNARY
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.dtype import DType
from optimizer.ir.opdef import ON_HOST
from optimizer.ir.vocabulary import FETCH, SEND
from optimizer.opmodel.ttnn_calls.text import Site, Writer, activation_text, call, dtype_text, literal


def _unary(site: Site) -> str:
    """`ttnn.relu(x, *args, memory_config=, **kwargs)`: rows may carry `args` and `kwargs` of their own."""
    extra = [literal(v) for v in site.attr("args") or ()]
    named = {name: literal(value) for name, value in site.attr("kwargs") or ()}
    return site.call(*extra, output_tensor=site.output_tensor, **named)


def _positional(*names: str, function: str | None = None) -> Writer:
    """A unary op whose scalars follow the tensor; rows that carry `args` instead say them all."""

    def write(site: Site) -> str:
        if "args" in site.attrs or "kwargs" in site.attrs:
            return _unary(site)
        values = [literal(site.need(name)) for name in names if name in site.attrs or function]
        return site.call(*values, function=function, output_tensor=site.output_tensor)

    return write


def _keywords(*names: str) -> Writer:
    """A unary op whose scalars are keywords; one that the query leaves out is left to TTNN."""

    def write(site: Site) -> str:
        if "args" in site.attrs or "kwargs" in site.attrs:
            return _unary(site)
        named = {name: literal(site.need(name)) for name in names if name in site.attrs}
        return site.call(output_tensor=site.output_tensor, **named)

    return write


def _binary(site: Site) -> str:
    other = site.optional(1)
    if other is None:
        other = literal(site.need("scalar"))
        if site.attr("scalar") is None:
            raise OpModelError(f"{site.query.op} needs a second operand or a scalar")
    fused = {name: _activations(site, name) for name in ("activations", *OPERAND_ACTIVATIONS)}
    fused["output_tensor"] = site.output_tensor
    return site.call(other, dtype=site.dtype, **fused)


def _activations(site: Site, name: str) -> str | None:
    """A list of activations; None: none is passed."""
    texts = [activation_text(activation) for activation in site.attr(name) or ()]
    return f"[{', '.join(texts)}]" if texts else None


def _atan2(site: Site) -> str:
    """`ttnn.atan2` takes tensors only, and fuses no activation."""
    if site.optional(1) is not None or site.attr("scalar") is None:
        return _binary(site)
    other = call("ttnn.full_like", site.operand(0), literal(site.attr("scalar")))
    return site.call(other)


def _prelu(site: Site) -> str:
    """`ttnn.prelu` takes one slope for all, or one per index of dim 1; other slopes are spelled out."""
    other = site.optional(1)
    if other is None:
        return _binary(site)
    x, slope = (spec.shape for spec in site.query.inputs[:2])
    aligned = (1,) * (len(x) - len(slope)) + slope
    if len(x) > 1 and aligned == (1, x[1], *(1,) * (len(x) - 2)):
        return _binary(site)
    below = site.call(other, function="ttnn.multiply")
    above = f"ttnn.gtz({site.operand(0)})"
    return call("ttnn.where", above, site.operand(0), below, memory_config=site.memory)


def _where(site: Site) -> str:
    """Scalars stand for the branches that are no operands; a scalar `x` leaves the second operand to `y`."""
    rest = list(site.operands[1:])
    chosen = []
    for name in ("x", "y"):
        value = site.attrs.get(name)
        use_tensor = bool(rest) and (value is None or len(rest) == 2)
        chosen.append(rest.pop(0) if use_tensor else literal(value))
    if "None" in chosen:
        raise OpModelError("ttnn.where needs a tensor or a scalar for each branch")
    return site.call(*chosen)


def _ternary(site: Site) -> str:
    return site.call(site.operand(1), site.operand(2))


def _ternary_value(site: Site) -> str:
    value = literal(site.attr("value"))
    return site.call(site.operand(1), site.operand(2), value=value, memory_config=site.memory)


def _typecast(site: Site) -> str:
    name = site.attr("dtype")
    dtype = site.query.output_dtype if name is None else DType(str(name))
    if dtype is None:
        raise OpModelError("ttnn.typecast needs a dtype")
    if not site.attr(ON_HOST):
        return site.call(dtype_text(dtype))
    text = call("ttnn.to_dtype", call(FETCH, site.operand(0)), dtype_text(dtype))
    return call(SEND, text, site.device, memory_config=site.memory)


CALLS: dict[str, Writer] = {
    **{f"ttnn.{name}": _unary for name in UNARY},
    "ttnn.gelu_tanh": lambda site: site.call(
        function="ttnn.gelu",
        variant="ttnn.GeluVariant.Tanh",
        memory_config=site.memory,
        output_tensor=site.output_tensor,
    ),
    **{f"ttnn.{name}": _binary for name in BINARY},
    "ttnn.leaky_relu": _positional("negative_slope"),
    "ttnn.heaviside": _positional("value"),
    "ttnn.threshold": _positional("threshold", "value"),
    "ttnn.prelu_scalar": _positional("weight", function="ttnn.prelu"),
    "ttnn.pow_scalar": _positional("exponent", function="ttnn.pow"),
    "ttnn.elu": _keywords("alpha"),
    "ttnn.celu": _keywords("alpha"),
    "ttnn.tril": _keywords("diagonal"),
    "ttnn.triu": _keywords("diagonal"),
    "ttnn.hardshrink": _keywords("lambd"),
    "ttnn.softshrink": _keywords("lambd"),
    "ttnn.softplus": _keywords("beta", "threshold"),
    "ttnn.atan2": _atan2,
    "ttnn.prelu": _prelu,
    "ttnn.clamp": lambda site: site.call(
        literal(site.attr("min")), literal(site.attr("max")), output_tensor=site.output_tensor
    ),
    # scalar - x, and the two-operand form
    "ttnn.rsub": lambda site: site.call(site.optional(1) or literal(site.need("scalar")), dtype=site.dtype),
    "ttnn.rdiv": _positional("scalar", function="ttnn.rdiv"),
    "ttnn.where": _where,
    "ttnn.addcmul": _ternary_value,
    "ttnn.addcdiv": _ternary_value,
    "ttnn.lerp": _ternary,
    "ttnn.mac": _ternary,
    "ttnn.typecast": _typecast,
}
"""Query op -> writer of its call."""
