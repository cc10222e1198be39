"""Activations that exporters spell out: GELU (erf, tanh, sigmoid), SiLU, HardSwish, HardSigmoid, Mish, LogSigmoid."""

from __future__ import annotations

from dataclasses import dataclass, field
from math import pi, sqrt

from optimizer.importers.passes.rewriting import close, emit, fuse, is_scalar_op, rewrites_each
from optimizer.ir.graph import Graph, Op


@dataclass
class Product:
    """A tree of multiplications flattened: the tensors, the number, and the ops that make it up."""

    tensors: list[str] = field(default_factory=list)
    number: float = 1.0
    ops: list[Op] = field(default_factory=list)


def product_of(graph: Graph, top: Op) -> Product:
    """Flatten the multiplications under `top`; inner ones count only if nothing else reads them."""
    found = Product()
    _collect(graph, top, found)
    return found


def _collect(graph: Graph, op: Op, found: Product) -> None:
    found.ops.append(op)
    if is_scalar_op(op, "multiply"):
        found.number *= float(op.attrs["scalar"])  # type: ignore[arg-type]
    for value_id in op.inputs:
        inner = graph.produced_by(value_id, "multiply")
        if inner is not None and len(found.ops) < 5 and graph.only_use(value_id) is not None:
            _collect(graph, inner, found)
        else:
            found.tensors.append(value_id)


def _tops(graph: Graph, value_id: str) -> list[tuple[Op, Product]]:
    """Multiplications above a value, each flattened: from the nearest to the farthest, up to three."""
    found: list[tuple[Op, Product]] = []
    op = graph.only_use(value_id)
    while op is not None and op.op == "ttnn.multiply" and not op.attrs.get("activations") and len(found) < 3:
        found.append((op, product_of(graph, op)))
        op = graph.only_use(op.outputs[0])
    return found


def _scaled(graph: Graph, value_id: str) -> tuple[str, float, list[Op]]:
    """A value as (tensor, factor, ops) with scalar multiplications taken off."""
    ops: list[Op] = []
    factor = 1.0
    op = graph.producer(value_id)
    while op is not None and is_scalar_op(op, "multiply"):
        factor *= float(op.attrs["scalar"])  # type: ignore[arg-type]
        ops.append(op)
        value_id = op.inputs[0]
        op = graph.producer(value_id)
    return value_id, factor, ops


def _replace(graph: Graph, inner: str, x: str, number: float, name: str, absorbed: list[Op]) -> int:
    """Find `number * x * inner` above `inner` and make it one unary op."""
    for top, product in _tops(graph, inner):
        if len(product.tensors) != 2 or inner not in product.tensors or not close(product.number, number):
            continue
        other = product.tensors[1 - product.tensors.index(inner)]
        if other == x:
            fuse(graph, top, top, name, [x], {}, [*absorbed, *product.ops[1:]])
            return 1
    return 0


def _gelu(graph: Graph, op: Op, found: tuple[str, list[Op]] | None, name: str) -> int:
    """0.5*x*(1 + op(...)) -> one op; `found`: x and the ops between it and `op`."""
    shifted = graph.only_use(op.outputs[0])
    if found is None or shifted is None or not is_scalar_op(shifted, "add") or shifted.attrs["scalar"] != 1:
        return 0
    x, ops = found
    return _replace(graph, shifted.outputs[0], x, 0.5, name, [*ops, op, shifted])


@rewrites_each("gelu", "erf")
def gelu(graph: Graph, op: Op) -> int:
    """0.5*x*(1 + erf(x/sqrt 2)) -> gelu."""
    x, factor, ops = _scaled(graph, op.inputs[0])
    return _gelu(graph, op, (x, ops), "gelu") if close(factor, 1 / sqrt(2)) else 0


@rewrites_each("gelu-tanh", "tanh")
def gelu_tanh(graph: Graph, op: Op) -> int:
    """0.5*x*(1 + tanh(sqrt(2/pi)*(x + 0.044715*x^3))) -> gelu_tanh."""
    return _gelu(graph, op, _tanh(graph, op), "gelu_tanh")


def _tanh(graph: Graph, op: Op) -> tuple[str, list[Op]] | None:
    total, factor, ops = _scaled(graph, op.inputs[0])
    if close(factor, sqrt(2 / pi)):
        addition = graph.produced_by(total, "add")
        if addition is not None and len(addition.inputs) == 2:
            return _cubic(graph, addition, [*ops, addition])
    return _factored(graph, op)


def _cubic(graph: Graph, addition: Op, ops: list[Op]) -> tuple[str, list[Op]] | None:
    """x + 0.044715*x^3"""
    for x, other in (addition.inputs, addition.inputs[::-1]):
        cube, factor, scales = _scaled(graph, other)
        power = graph.producer(cube)
        if not close(factor, 0.044715) or power is None:
            continue
        if power.op == "ttnn.pow_scalar" and power.attrs["exponent"] == 3 and power.inputs == (x,):
            return x, [*ops, *scales, power]
        if power.op == "ttnn.multiply" and len(power.inputs) == 2:
            squares = [graph.produced_by(v, "square") for v in power.inputs]
            if any(s is not None and s.inputs == (x,) for s in squares) and x in power.inputs:
                return x, [*ops, *scales, power]
    return None


def _factored(graph: Graph, op: Op) -> tuple[str, list[Op]] | None:
    """sqrt(2/pi)*x*(1 + 0.044715*x*x)"""
    top = graph.produced_by(op.inputs[0], "multiply")
    if top is None:
        return None
    product = product_of(graph, top)
    if len(product.tensors) != 2 or not close(product.number, sqrt(2 / pi)):
        return None
    for x, other in (product.tensors, product.tensors[::-1]):
        shifted = graph.producer(other)
        if shifted is None or not is_scalar_op(shifted, "add") or shifted.attrs["scalar"] != 1:
            continue
        inner, factor, scales = _scaled(graph, shifted.inputs[0])
        power = graph.producer(inner)
        if power is None:
            continue
        if close(factor, 0.044715) and power.op == "ttnn.square" and power.inputs == (x,):
            return x, [*product.ops, shifted, *scales, power]
        if power.op == "ttnn.multiply" and len(power.inputs) == 2:
            tree = product_of(graph, power)
            if tree.tensors == [x, x] and close(tree.number * factor, 0.044715):
                return x, [*product.ops, shifted, *scales, *tree.ops]
    return None


@rewrites_each("silu", "sigmoid", "hardsigmoid", "tanh")
def silu(graph: Graph, op: Op) -> int:
    """x*sigmoid(x) -> silu; x*tanh(softplus(x)) -> mish; x*hardsigmoid(x) -> hardswish."""
    x, absorbed = op.inputs[0], [op]
    if op.op == "ttnn.tanh":
        plus = graph.produced_by(x, "softplus")
        if plus is None:
            return 0
        x, absorbed = plus.inputs[0], [plus, op]
    name = {"ttnn.sigmoid": "silu", "ttnn.hardsigmoid": "hardswish", "ttnn.tanh": "mish"}[op.op]
    return _replace(graph, op.outputs[0], x, 1.0, name, absorbed)


@rewrites_each("quick-gelu", "sigmoid")
def quick_gelu(graph: Graph, gate: Op) -> int:
    """x*sigmoid(c*x) -> silu(c*x)*(1/c): weights before and after can take the factors, and products apply silu."""
    x, factor, scales = _scaled(graph, gate.inputs[0])
    if not scales or not factor:
        return 0
    for top, product in _tops(graph, gate.outputs[0]):
        if sorted(product.tensors) == sorted((x, gate.outputs[0])):
            scaled = emit(graph, gate, "multiply", [x], {"scalar": factor})
            gated = emit(graph, gate, "silu", [scaled], {})
            absorbed = [*scales, gate, *product.ops[1:]]
            fuse(graph, top, top, "multiply", [gated], {"scalar": product.number / factor}, absorbed)
            return 1
    return 0


@rewrites_each("hardswish", "relu6", "clamp")
def hardswish(graph: Graph, op: Op) -> int:
    """x*clip(x + 3, 0, 6)/6 in any order -> hardswish; clip(x + 3, 0, 6)/6 alone -> hardsigmoid."""
    shifted = graph.produced_by(op.inputs[0], "add")
    if shifted is None or not is_scalar_op(shifted, "add"):
        return 0
    x, factor, scales = _scaled(graph, shifted.inputs[0])
    if op.op == "ttnn.relu6" and shifted.attrs["scalar"] == 3:
        x, scales, number = shifted.inputs[0], [], 1 / 6
    elif (op.attrs.get("min"), op.attrs.get("max")) == (0, 1) and close(factor, 1 / 6):
        if shifted.attrs["scalar"] != 0.5:
            return 0
        number = 1.0
    else:
        return 0
    absorbed = [*scales, shifted, op]
    if _replace(graph, op.outputs[0], x, number, "hardswish", absorbed):
        return 1
    if number == 1.0:
        fuse(graph, op, op, "hardsigmoid", [x], {}, absorbed[:-1])
        return 1
    scale = graph.only_use(op.outputs[0])
    if scale is not None and is_scalar_op(scale, "multiply") and close(float(scale.attrs["scalar"]), number):  # type: ignore[arg-type]
        fuse(graph, scale, scale, "hardsigmoid", [x], {}, absorbed)
        return 1
    return 0


@rewrites_each("log-sigmoid", "log")
def log_sigmoid(graph: Graph, op: Op) -> int:
    """log(sigmoid(x)) -> log_sigmoid, where nothing else reads the sigmoid."""
    gate = graph.produced_by(op.inputs[0], "sigmoid")
    if gate is None or graph.only_use(gate.outputs[0]) is None:
        return 0
    fuse(graph, op, op, "log_sigmoid", gate.inputs, {}, [gate])
    return 1
