"""Where the library's shape inference says otherwise than ONNX: these rules are registered in place of its own.

Found by `benchmarks/node_tests.py`, which compares every node test of ONNX with what is imported.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import floor, inf
from typing import Any

import numpy as np
import onnx_ir as ir
from onnx_shape_inference import ShapeInferenceContext, registry

from optimizer.importers.onnx_runtime_schemas import MICROSOFT

Infer = Callable[[ShapeInferenceContext, ir.Node], None]
STRETCH = "stretch"
"""The `keep_aspect_ratio_policy` of Resize that keeps none."""
_FROM_FILE = ("QLinearAveragePool", "QLinearGlobalAveragePool", "QLinearReduceMean")
"""Ops of onnxruntime whose results the library takes to be like their operands; only the file can tell."""


def resized(size: int, scale: float, policy: str = STRETCH) -> int:
    """The size of an axis by its scale, in f32 as onnxruntime does; a policy rounds halves up."""
    product = np.float32(size) * np.float32(scale)
    return floor(product if policy == STRETCH else product + np.float32(0.5))


def kept_ratio(source: Sequence[int], sizes: Sequence[int], policy: str) -> float:
    """The one scale of all axes where Resize stays within `sizes`, or reaches them, without stretching."""
    scales = [np.float32(size) / np.float32(old) for old, size in zip(source, sizes, strict=True)]
    return float(min(scales) if policy == "not_larger" else max(scales))


def install() -> None:
    """Register the rules, after those of the library."""
    registry.collect()
    for op_type, version in (("Resize", 10), ("Upsample", 7)):
        registry.register("", op_type, version)(_resizing(registry.get("", op_type, version=version)))
    for op_type in ("Split", "Squeeze"):
        registry.register("", op_type, 13)(_knowing_operand_1(registry.get("", op_type, version=13)))
    for op_type in _FROM_FILE:
        registry.register(MICROSOFT, op_type, 1)(_as_stated)
    registry.register(MICROSOFT, "QGemm", 1)(_typed_by_operand_8(registry.get(MICROSOFT, "QGemm", version=1)))


def _as_stated(_ctx: ShapeInferenceContext, _node: ir.Node) -> None:
    """What the file says stays."""


def _knowing_operand_1(rule: Infer) -> Infer:
    """The library's rule, once the elements of operand 1 are known: without them it takes the operand for absent."""

    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        given = node.inputs[1] if len(node.inputs) > 1 else None
        if given is None or ir.convenience.get_const_tensor(given) is not None:
            rule(ctx, node)
        elif node.inputs[0] is not None and node.inputs[0].dtype is not None:
            for result in node.outputs:
                ctx.set_dtype(result, node.inputs[0].dtype)

    return infer


def _typed_by_operand_8(rule: Infer) -> Infer:
    """The library's rule, but with the element type of the result's zero point, if there is one."""

    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        zero_point = node.inputs[8] if len(node.inputs) > 8 else None
        if zero_point is not None and zero_point.dtype is not None:
            ctx.set_dtype(node.outputs[0], zero_point.dtype)
        rule(ctx, node)

    return infer


def _resizing(rule: Infer) -> Infer:
    """Resize and Upsample where scales or sizes and the operand's shape are known, else the library's rule."""

    def infer(ctx: ShapeInferenceContext, node: ir.Node) -> None:
        x = node.inputs[0] if node.inputs else None
        dims = None if x is None or x.shape is None else list(x.shape.dims)
        axes = None if dims is None else _axes(node, len(dims))
        if x is None or dims is None or axes is None or not all(isinstance(dims[axis], int) for axis in axes):
            if _text(node, "keep_aspect_ratio_policy", STRETCH) == STRETCH:
                rule(ctx, node)
            return
        found = _target(ctx, node, [size for axis in axes if isinstance(size := dims[axis], int)])
        if found is None:
            rule(ctx, node)
            return
        for axis, size in zip(axes, found, strict=True):
            dims[axis] = size
        ctx.set_shape_and_dtype(node.outputs[0], ir.Shape(dims), x.dtype)

    return infer


def _axes(node: ir.Node, rank: int) -> list[int] | None:
    """The axes that are resized, from the front; None where the tensor has no such axis."""
    attribute = node.attributes.get("axes")
    axes = list(range(rank)) if attribute is None else [int(axis) for axis in attribute.as_ints()]
    return [axis % rank for axis in axes] if all(-rank <= axis < rank for axis in axes) else None


def _target(ctx: ShapeInferenceContext, node: ir.Node, source: list[int]) -> list[int] | None:
    """New sizes of the axes; None where they are not known yet."""
    older = node.op_type == "Upsample" or ctx.get_opset_version("") < 11
    scales, sizes = _elements(node, 1 if older else 2, "scales"), [] if older else _elements(node, 3, "sizes")
    if scales is None or sizes is None or not (scales or sizes):
        return None
    if len(scales) + len(sizes) != len(source) or not all(0 < given < inf for given in (*scales, *sizes)):
        ctx.record_error(node, f"scales {scales} and sizes {sizes} do not give one positive number for each axis")
    policy = _text(node, "keep_aspect_ratio_policy", STRETCH)
    if scales:
        return [resized(size, scale) for size, scale in zip(source, scales, strict=True)]
    if policy == STRETCH:
        return [int(size) for size in sizes]
    return [resized(size, kept_ratio(source, [int(s) for s in sizes], policy), policy) for size in source]


def _elements(node: ir.Node, index: int, name: str) -> list[Any] | None:
    """Numbers of an operand, or of an attribute in its stead; [] where there is neither, None where unknown."""
    attribute = node.attributes.get(name)
    if attribute is not None:
        return list(attribute.as_floats())
    value = node.inputs[index] if index < len(node.inputs) else None
    if value is None:
        return []
    held = ir.convenience.get_const_tensor(value)
    return None if held is None else held.numpy().reshape(-1).tolist()


def _text(node: ir.Node, name: str, default: str) -> str:
    attribute = node.attributes.get(name)
    return default if attribute is None else attribute.as_string()
