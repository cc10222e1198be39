"""Convolutions, the preparation of their weights, pools and upsampling in the TTNN dialect."""

from __future__ import annotations

from dataclasses import replace

from optimizer.device import DeviceSpec
from optimizer.export.mlir.configs import activation_text, conv2d_text, memory_text, slice_text
from optimizer.export.mlir.spelling import Device, Rule, Said, Site, told
from optimizer.export.mlir.text import boolean, dense, integer, quoted
from optimizer.export.overrides import dtype_text
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.layouts.op_config import Conv2dConfig
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights
from optimizer.opmodel.base import OpQuery, TensorSpec

_DATA_TYPE = "#ttcore.supportedDataTypes<{}>"


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


MLIR: dict[str, Rule] = {
    "ttnn.conv2d": _conv,
    "ttnn.conv_transpose2d": _conv,
    "ttnn.max_pool2d": _pool,
    "ttnn.avg_pool2d": _pool,
    "ttnn.global_avg_pool2d": told(),
    "ttnn.upsample": _upsample,
}
