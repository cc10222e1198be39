"""Weights and biases of convolutions, prepared ahead."""

from __future__ import annotations

from dataclasses import replace

from optimizer.device import DeviceSpec
from optimizer.export.mlir.compute_rules import conv_properties
from optimizer.export.mlir.configs import memory_text
from optimizer.export.mlir.spelling import Device, Said, Site
from optimizer.export.mlir.text import boolean, dense, quoted
from optimizer.export.overrides import dtype_text
from optimizer.ir.dtype import DType
from optimizer.layouts.memory_config import MemoryConfig
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights
from optimizer.opmodel.base import OpQuery, TensorSpec


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
        "input_dtype": data_type_text(x.dtype),
        "output_dtype": data_type_text(site.outputs[0].dtype),
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


def data_type_text(dtype: DType) -> str:
    return f"#ttcore.supportedDataTypes<{dtype_text(dtype)}>"
