"""Factories for rows of the vocabulary that are alike: what they state holds for every op of that form."""

from __future__ import annotations

from typing import Any

from optimizer.errors import StateError
from optimizer.ir import compulsory
from optimizer.ir import compute_config as compute
from optimizer.ir import shape_rules as rule
from optimizer.ir.activations import FUSED_ACTIVATIONS, OPERAND_ACTIVATIONS
from optimizer.ir.compulsory import ProductRule
from optimizer.ir.dtype import FLOATS, INTEGERS, WIDE_FLOATS, DType
from optimizer.ir.opdef import REQUIRED, ConfigFamily, CostClass, DTypeRule, Elements, Mixing, OpDef, Page, ShapeRule

Rows = tuple[OpDef, ...]

_WINDOW = {
    "batch_size": REQUIRED, "input_height": REQUIRED, "input_width": REQUIRED, "kernel_size": REQUIRED,
    "stride": (1, 1), "padding": (0, 0, 0, 0), "dilation": (1, 1),
}  # fmt: skip
_CONV = {"in_channels": REQUIRED, "out_channels": REQUIRED, "groups": 1, "activation": None, "math_fidelity": None}
_MATMUL = {"transpose_a": False, "transpose_b": False, "activation": None, "math_fidelity": None}


def by_name(*rows: OpDef) -> dict[str, OpDef]:
    """Rows as a table. StateError where two are of one op."""
    table = {entry.name: entry for entry in rows}
    if len(table) < len(rows):
        raise StateError("an op has two rows")
    return table


def row(name: str, cost_class: CostClass, shapes: ShapeRule, /, **fields: Any) -> OpDef:
    """The row of `ttnn.<name>`; `inputs` is the number of operands, or the least and the most."""
    inputs = fields.pop("inputs", 1)
    least, most = (inputs, inputs) if isinstance(inputs, int) else inputs
    return OpDef(f"ttnn.{name}", cost_class, shapes, min_inputs=least, max_inputs=most, **fields)


def sharded(name: str, cost_class: CostClass, shapes: ShapeRule, /, **fields: Any) -> OpDef:
    """An op whose result may be sharded."""
    return row(name, cost_class, shapes, shardable=True, **fields)


def elementwise(name: str, shapes: ShapeRule, /, **fields: Any) -> OpDef:
    """An element of the result is computed from one element of each operand, and so is the padding of tiles."""
    return sharded(name, CostClass.ELTWISE, shapes, padding_follows=True, **fields)


def unary(*names: str, in_place: bool = True, takes: frozenset[DType] = FLOATS, **fields: Any) -> Rows:
    """Element-wise ops of one operand."""
    return tuple(elementwise(name, rule.same, in_place=in_place, takes=takes, **fields) for name in names)


def binary(*names: str, in_place: bool = True, fuses: bool = True, **fields: Any) -> Rows:
    """Element-wise ops with broadcasting. One operand and attribute `scalar` mean a scalar right-hand side.

    `fuses`: the call takes activations, for its operands and its result.
    """
    attrs: dict[str, object] = {"scalar": None, "activations": ()}
    if fuses:
        attrs |= dict.fromkeys(OPERAND_ACTIVATIONS, ())
        fields["activations"] = FUSED_ACTIVATIONS
    shared = {"inputs": (1, 2), "attrs": attrs, "in_place": in_place, "takes_dtype": True}
    shared |= {"takes": FLOATS | INTEGERS, "mixes": Mixing.FLOATS, **fields}
    return tuple(elementwise(name, rule.binary, **shared) for name in names)


def ternary(*names: str, **fields: Any) -> Rows:
    """Element-wise ops of three operands, with broadcasting."""
    shared = {"inputs": 3, "attrs": {"value": 1.0}, "takes": FLOATS, **fields}
    return tuple(elementwise(name, rule.eltwise, **shared) for name in names)


def matmul(name: str, *, inputs: Any) -> OpDef:
    """Matrix products, with a bias as third operand where there are three."""
    return sharded(
        name,
        CostClass.MATMUL,
        rule.matmul,
        inputs=inputs,
        attrs=_MATMUL,
        activations=FUSED_ACTIVATIONS,
        compute=compute.matmul,
        products=compulsory.matmul,
        config=ConfigFamily.MATMUL,
        takes_dtype=True,
        sharding_follows_operand=True,
        rows_apart=True,
    )


def convolution(name: str, shapes: ShapeRule, /, *, products: ProductRule, **more_attrs: object) -> OpDef:
    """Convolutions of flat channels-last images; weights and bias stay on the host, where they are prepared."""
    return sharded(
        name,
        CostClass.CONV,
        shapes,
        inputs=(2, 3),
        attrs={**_WINDOW, **_CONV, **more_attrs},
        activations=FUSED_ACTIVATIONS,
        compute=compute.conv,
        products=products,
        config=ConfigFamily.CONV2D,
        takes_dtype=True,
        operand_pages=(Page.ANY, Page.HOST, Page.HOST),
    )


def pool(name: str, more_attrs: dict[str, object], **fields: Any) -> OpDef:
    """Pools of flat channels-last images, whose results are rows."""
    return sharded(
        name,
        CostClass.POOL,
        rule.pool2d,
        attrs={**_WINDOW, "channels": REQUIRED, "ceil_mode": False, **more_attrs},
        dtype=DTypeRule.UNPACKED,
        operand_pages=(Page.ANY,),
        output_page=Page.ROW_MAJOR,
        **fields,
    )


def norm(name: str, shapes: ShapeRule, /, *, inputs: Any, compute_rule: Any = compute.exact, **fields: Any) -> OpDef:
    """Normalisation, scale and shift behind operand 0."""
    attrs = {"epsilon": 1e-5, **fields.pop("attrs", {})}
    return sharded(name, CostClass.NORM, shapes, inputs=inputs, attrs=attrs, compute=compute_rule, **fields)


def reduction(*names: str, **fields: Any) -> Rows:
    """Reductions over attribute `dim` (None: all dims)."""
    shared = {"attrs": {"dim": None, "keepdim": True}, "takes": WIDE_FLOATS, **fields}
    return tuple(sharded(name, CostClass.REDUCE, rule.reduce, **shared) for name in names)


def movement(name: str, shapes: ShapeRule, /, *, elements: Elements = Elements.MOVED, **fields: Any) -> OpDef:
    """Ops that move elements and compute nothing."""
    return row(name, CostClass.DATA_MOVEMENT, shapes, elements=elements, **fields)


def layout(name: str, cost_class: CostClass, /, **fields: Any) -> OpDef:
    """Ops that put a tensor elsewhere or into other pages: what ttopt inserts."""
    shared = {"operand_pages": (Page.ANY,), "output_page": Page.ANY, "elements": Elements.KEPT, **fields}
    return row(name, cost_class, rule.same, **shared)


def made(name: str, shapes: ShapeRule, /, attrs: dict[str, object], **fields: Any) -> OpDef:
    """Tensors that are made of attributes alone."""
    named = {**attrs, "dtype": "bf16"}
    return row(name, CostClass.DATA_MOVEMENT, shapes, inputs=0, attrs=named, dtype=DTypeRule.ATTR, **fields)
