"""Rules for ops that compute: element-wise, products, convolutions, pools, norms, reductions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from optimizer.device import DeviceSpec
from optimizer.export.mlir.configs import activation_text, conv2d_text, memory_text, slice_text
from optimizer.export.mlir.spelling import Device, Number, Operand, Rule, Said, Site, told
from optimizer.export.mlir.text import I32, SI8, SI32, boolean, dense, integer, listed, quoted, real
from optimizer.export.overrides import dtype_text
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.opdef import ON_HOST
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights
from optimizer.opmodel.base import OpQuery, TensorSpec

_DATA_TYPE = "#ttcore.supportedDataTypes<{}>"


# -- element-wise ------------------------------------------------------------------------------------------
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


# -- products ----------------------------------------------------------------------------------------------
def _matmul(site: Site) -> tuple[Said, ...]:
    properties = {
        "transpose_a": boolean(site.attrs["transpose_a"]),
        "transpose_b": boolean(site.attrs["transpose_b"]),
        **site.program("matmul_program_config"),
        **site.compute(),
    }
    activation = site.attrs["activation"]
    fused = getattr(site.config, "fused_activation", None)
    if fused is not None and activation_text(fused) is None:
        activation = fused
    if activation:
        properties["activation"] = quoted(activation)
    return (Said(site.op.op, site.operands, properties),)


def window(site: Site) -> dict[str, str]:
    """The geometry of a convolution or pool; pools state theirs as signed integers."""
    attrs = site.attrs
    kind = "i32" if "in_channels" in attrs else "si32"
    return {
        "batch_size": integer(attrs["batch_size"], kind),
        "input_height": integer(attrs["input_height"], kind),
        "input_width": integer(attrs["input_width"], kind),
        "kernel_size": dense(attrs["kernel_size"]),
        "stride": dense(attrs["stride"]),
        "padding": dense(attrs["padding"]),
        "dilation": dense(attrs["dilation"]),
    }


def conv_properties(site: Site) -> dict[str, str]:
    """What a convolution shares with the preparation of its weights."""
    properties = {
        **window(site),
        "in_channels": integer(site.attrs["in_channels"], "i32"),
        "out_channels": integer(site.attrs["out_channels"], "i32"),
        "groups": integer(site.attrs["groups"], "i32"),
        **site.compute(),
    }
    if isinstance(site.config, Conv2dConfig):
        properties["conv2d_config"] = conv2d_text(site.config)
        slices = slice_text(site.config)
        if slices is not None:
            properties["conv2d_slice_config"] = slices
    return properties


def _conv(site: Site) -> tuple[Said, ...]:
    properties = conv_properties(site)
    if site.name == "conv_transpose2d":
        properties["output_padding"] = dense(site.attrs["output_padding"])
    config = site.config
    told = config.activation if isinstance(config, Conv2dConfig) else site.attrs["activation"]
    unsaid = told and (not isinstance(config, Conv2dConfig) or activation_text(told) is None)
    attributes = {"activation": quoted(str(told))} if unsaid else {}
    return (Said(site.op.op, (*site.operands, Device()), properties, attributes),)


def conv_operand(
    site: Site,
    query: OpQuery,
    prepared: tuple[OpQuery, MemoryConfig],
    position: int,
    device: DeviceSpec,
    l1_small_bytes: int,
) -> tuple[Said, TensorSpec]:
    """The op that prepares a convolution's weight (1) or bias (2), and what it gives."""
    called, memory = prepared
    x = query.inputs[0]
    weight, transposed = position == 1, query.op == "ttnn.conv_transpose2d"
    properties = {
        **conv_properties(replace(site, config=called.config)),
        "input_memory_config": memory_text(memory),
        "input_tensor_layout": f"#ttnn.layout<{x.layout.page_layout.value}>",
        "input_dtype": _DATA_TYPE.format(dtype_text(x.dtype)),
        "output_dtype": _DATA_TYPE.format(dtype_text(site.outputs[0].dtype)),
    }
    if weight:
        properties["weights_format"] = quoted("IOHW" if transposed else "OIHW")
        properties["has_bias"] = boolean(len(query.inputs) > 2)
        if transposed:
            properties["output_padding"] = dense(site.attrs["output_padding"])
    form = "conv_transpose2d" if transposed else "conv2d"
    name = f"ttnn.prepare_{form}_{'weights' if weight else 'bias'}"
    made = prepared_weights(query, device, l1_small_bytes)[position - 1]
    shape = (1, 1, made.shape[-2] if weight else 1, site.attrs["out_channels"])  # the rest is padding to tt-mlir
    return Said(name, (0, Device()), properties), replace(made, shape=shape)


def _pool(site: Site) -> tuple[Said, ...]:
    properties = {
        **window(site),
        "channels": integer(site.attrs["channels"], "si32"),
        "ceil_mode": boolean(site.attrs["ceil_mode"]),
    }
    if site.name == "avg_pool2d":
        properties["count_include_pad"] = boolean(site.attrs["count_include_pad"])
    return (Said(site.op.op, site.operands, properties),)


def _upsample(site: Site) -> tuple[Said, ...]:
    scale = site.attrs["scale_factor"]
    both = scale if isinstance(scale, tuple | list) else (scale, scale)
    if any(float(s) != int(s) for s in both):
        return ()
    return (Said(site.op.op, site.operands, {"scale_factor": dense(both), "mode": quoted(str(site.attrs["mode"]))}),)


# -- norms and reductions ------------------------------------------------------------------------------------
def _norm(site: Site) -> tuple[Said, ...]:
    """The layer norm of the dialect has no compute config, and neither norm a program config: attributes here."""
    weight, bias = int(len(site.inputs) > 1), int(len(site.inputs) > 2)
    properties = {"epsilon": real(site.attrs["epsilon"]), **site.segments(1, weight, bias)}
    rest = site.program("program_config")
    if site.name == "rms_norm":
        properties |= site.compute()
    else:
        rest |= site.compute()
    return (Said(site.op.op, site.operands, properties, rest),)


def _group_norm(site: Site) -> tuple[Said, ...]:
    weight, bias = int(len(site.inputs) > 1), int(len(site.inputs) > 2)
    properties = {
        "num_groups": integer(site.attrs["num_groups"], "i64"),
        "epsilon": real(site.attrs["epsilon"]),
        **site.segments(1, 0, weight, bias),
    }
    return (Said(site.op.op, site.operands, properties, site.compute()),)


def _batch_norm(site: Site) -> tuple[Said, ...]:
    given = len(site.inputs)
    present = [int(k < given) for k in range(5)]
    properties = {"epsilon": real(site.attrs["epsilon"]), **site.segments(*present), **site.compute()}
    return (Said("ttnn.batch_norm_inference", site.operands, properties),)


def _dims(dim: Any) -> str:
    return listed(dim if isinstance(dim, tuple | list) else (dim,))


def _prod(site: Site) -> tuple[Said, ...]:
    dim = site.attrs["dim"]
    properties = {"keep_dim": boolean(site.attrs["keepdim"])}
    if isinstance(dim, tuple | list):
        if len(dim) != 1:
            return ()
        dim = dim[0]
    if dim is not None:
        properties["dim_arg"] = integer(dim, "si64")
    return (Said(site.op.op, site.operands, properties),)


def _cumsum(site: Site) -> tuple[Said, ...]:
    if site.attrs["reverse_order"]:
        return ()
    return (Said(site.op.op, site.operands, {"dim": integer(site.attrs["dim"], "si32")}),)


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
COMPUTE_RULES: dict[str, Rule] = {
    **{f"ttnn.{name}": told() for name in (*_PLAIN, "global_avg_pool2d")},
    **{f"ttnn.{name}": _binary(f"ttnn.{name}") for name in _BINARY},
    "ttnn.pow": _binary("ttnn.pow_tensor"),
    "ttnn.bitwise_left_shift": _binary("ttnn.logical_left_shift"),
    "ttnn.leaky_relu": told(parameter=("negative_slope", real)),
    "ttnn.pow_scalar": told(rhs=("exponent", real)),
    "ttnn.clamp": _clamp,
    "ttnn.where": _where,
    "ttnn.typecast": _typecast,
    "ttnn.matmul": _matmul,
    "ttnn.linear": _matmul,
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.upsample": _upsample,
    "ttnn.softmax": told(compute=True, dimension=("dim", SI32), numericStable=("numeric_stable", boolean)),
    "ttnn.layer_norm": _norm,
    "ttnn.rms_norm": _norm,
    "ttnn.group_norm": _group_norm,
    "ttnn.batch_norm": _batch_norm,
    **{
        f"ttnn.{name}": told(compute=True, keep_dim=("keepdim", boolean), dim_arg=("dim", _dims))
        for name in ("sum", "mean", "max", "min")
    },
    "ttnn.prod": _prod,
    "ttnn.argmax": told(keep_dim=("keepdim", boolean), dim=("dim", SI32)),
    "ttnn.topk": told(k=("k", I32), dim=("dim", SI32), largest=("largest", boolean), sorted="true"),
    "ttnn.sort": told(dim=("dim", SI8), descending=("descending", boolean)),
    "ttnn.cumsum": _cumsum,
}
"""Our op -> its rule."""
