"""Small files whose planning is hard: concats and fans of many operands, long chains, dense reuse, thousands of ops.

Every graph is an ONNX model of few bytes (weights without elements), the same on every machine.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from functools import partial

import onnx
from onnx import TensorProto, helper

OPSET = 17
ROWS, WIDTH = 64, 96
SEED = 1_731


class Writer:
    """Writes one model node by node."""

    def __init__(self) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.inputs: list[onnx.ValueInfoProto] = []
        self.weights: list[onnx.TensorProto] = []

    def input(self, *shape: int) -> str:
        name = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(name, TensorProto.FLOAT, shape))
        return name

    def weight(self, *shape: int) -> str:
        """A tensor whose elements lie in a file that is not there."""
        tensor = onnx.TensorProto(name=f"w{len(self.weights)}", dims=shape, data_type=TensorProto.FLOAT)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="weights.bin")
        self.weights.append(tensor)
        return tensor.name

    def integers(self, *values: int) -> str:
        self.weights.append(helper.make_tensor(f"w{len(self.weights)}", TensorProto.INT64, (len(values),), values))
        return self.weights[-1].name

    def op(self, kind: str, *operands: str, results: int = 1, **attributes: object) -> str:
        """The first result of a node; those of a split are `NAME_1`, `NAME_2`, ..."""
        name = f"v{len(self.nodes)}"
        names = [name, *(f"{name}_{k}" for k in range(1, results))]
        self.nodes.append(helper.make_node(kind, operands, names, **attributes))
        return name

    def model(self, *outputs: str) -> bytes:
        """The file; shapes of outputs are inferred."""
        results = [onnx.ValueInfoProto(name=name) for name in outputs]
        for result in results:
            result.type.tensor_type.elem_type = TensorProto.FLOAT
        graph = helper.make_graph(self.nodes, "hostile", self.inputs, results, self.weights)
        opsets = [helper.make_opsetid("", OPSET)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=8).SerializeToString()


def concat_of_one(operands: int, width: int = WIDTH) -> bytes:
    """One input, concatenated with itself."""
    w = Writer()
    x = w.input(1, 1, ROWS, width)
    return w.model(w.op("Concat", *[x] * operands, axis=3))


def concat(operands: int) -> bytes:
    """As many inputs, concatenated."""
    w = Writer()
    return w.model(w.op("Concat", *[w.input(1, 1, ROWS, 32) for _ in range(operands)], axis=3))


def fan(readers: int, kind: str = "Relu") -> bytes:
    """One value read by many ops, whose results are added up in a tree."""
    w = Writer()
    x = w.input(1, 1, ROWS, WIDTH)
    level = [w.op(kind, x) for _ in range(readers)]
    while len(level) > 1:
        level = [w.op("Add", *pair) if len(pair) == 2 else pair[0] for pair in _pairs(level)]
    return w.model(level[0])


def outputs(count: int) -> bytes:
    """One value, a chain of whose readers is returned op by op."""
    w = Writer()
    x = w.input(1, 1, ROWS, WIDTH)
    given = []
    for _ in range(count):
        x = w.op("Sigmoid", x)
        given.append(x)
    return w.model(*given)


def split(parts: int) -> bytes:
    """One value cut into many, each changed, and joined again."""
    w = Writer()
    x = w.input(1, 1, ROWS, 32 * parts)
    first = w.op("Split", x, results=parts, axis=3)
    names = [first, *(f"{first}_{k}" for k in range(1, parts))]
    return w.model(w.op("Concat", *[w.op("Relu", name) for name in names], axis=3))


def slices(count: int) -> bytes:
    """Parts of one value that begin within tiles, joined."""
    w = Writer()
    x = w.input(1, 1, ROWS, count + 64)
    axes = w.integers(3)
    parts = [w.op("Slice", x, w.integers(k), w.integers(k + 40), axes) for k in range(count)]
    return w.model(w.op("Concat", *parts, axis=2))


def chain(ops: int, kinds: Sequence[str] = ("Relu", "Sigmoid", "Tanh", "Exp")) -> bytes:
    """Element-wise ops one after the other."""
    w = Writer()
    x = w.input(1, 1, 4 * ROWS, 4 * WIDTH)
    for k in range(ops):
        x = w.op(kinds[k % len(kinds)], x)
    return w.model(x)


def ladder(ops: int) -> bytes:
    """Binary ops that read the last two results."""
    w = Writer()
    a, b = w.input(1, 1, ROWS, WIDTH), w.input(1, 1, ROWS, WIDTH)
    for k in range(ops):
        a, b = b, w.op(("Add", "Mul", "Sub", "Max")[k % 4], a, b)
    return w.model(b)


def dense(layers: int, growth: int = 32) -> bytes:
    """Every layer reads all results before it."""
    w = Writer()
    values = [w.input(1, 1, ROWS, growth)]
    for k in range(layers):
        joined = w.op("Concat", *values, axis=3) if k else values[0]
        values.append(w.op("MatMul", joined, w.weight(growth * (k + 1), growth)))
    return w.model(values[-1])


def matmuls(layers: int, uneven: bool = False) -> bytes:
    """Products one after the other, of one width or of ever other ones."""
    w, rng = Writer(), random.Random(SEED)
    width = 256
    x = w.input(1, 1, 128, width)
    for _ in range(layers):
        other = rng.randrange(33, 700) if uneven else width
        x, width = w.op("Relu", w.op("MatMul", x, w.weight(width, other))), other
    return w.model(x)


def convolutions(layers: int, uneven: bool = False) -> bytes:
    """3x3 convolutions with sums around every other one."""
    w, rng = Writer(), random.Random(SEED)
    channels = 64
    x = w.input(1, channels, 56, 56)
    for k in range(layers):
        other = rng.randrange(17, 200) if uneven else channels
        y = w.op("Relu", w.op("Conv", x, w.weight(other, channels, 3, 3), pads=[1, 1, 1, 1]))
        x, channels = (w.op("Add", x, y) if k % 2 and not uneven else y), other
    return w.model(x)


def layers(count: int, tokens: int = 128, hidden: int = 256) -> bytes:
    """Attention and two products a layer, as exporters write them."""
    w = Writer()
    x = w.input(1, tokens, hidden)
    for _ in range(count):
        q, k, v = (_heads(w, w.op("MatMul", x, w.weight(hidden, hidden)), tokens, hidden) for _ in range(3))
        scores = w.op("Softmax", w.op("MatMul", q, w.op("Transpose", k, perm=[0, 1, 3, 2])), axis=-1)
        y = w.op("Transpose", w.op("MatMul", scores, v), perm=[0, 2, 1, 3])
        y = w.op("Reshape", y, w.integers(1, tokens, hidden))
        x = w.op("Add", x, w.op("MatMul", y, w.weight(hidden, hidden)))
        y = w.op("LayerNormalization", x, w.weight(hidden), w.weight(hidden), axis=-1)
        y = w.op("Sigmoid", w.op("MatMul", y, w.weight(hidden, 4 * hidden)))
        x = w.op("Add", x, w.op("MatMul", y, w.weight(4 * hidden, hidden)))
    return w.model(x)


def movements(ops: int) -> bytes:
    """Transposes and reshapes, one after the other, that cancel each other in none of their pairs."""
    w = Writer()
    sizes = [4, 6, 32, 48]
    x = w.input(*sizes)
    for k in range(ops):
        perm = ([0, 2, 1, 3], [1, 0, 3, 2], [0, 1, 3, 2], [2, 3, 0, 1])[k % 4]
        x, sizes = w.op("Sigmoid", w.op("Transpose", x, perm=perm)), [sizes[p] for p in perm]
    return w.model(x)


def reductions(ops: int) -> bytes:
    """Sums over rows, subtracted again."""
    w = Writer()
    x = w.input(1, 4, 128, 256)
    for k in range(ops):
        x = w.op("Sub", x, w.op("ReduceMean", x, axes=[3 - k % 2], keepdims=1))
    return w.model(x)


def random_graph(ops: int, seed: int = SEED) -> bytes:
    """Products, sums, joins and norms of values drawn from all before, no two parts alike."""
    w, rng = Writer(), random.Random(seed)
    values = [(w.input(1, 1, ROWS, WIDTH), WIDTH)]
    for _ in range(ops):
        x, width = values[-1 - min(len(values) - 1, int(rng.expovariate(0.3)))]
        others = [v for v, size in values[-40:] if size == width and v != x]
        what = rng.random()
        if what < 0.3:
            other = rng.choice((32, 64, 96, 160, 224, 384))
            values.append((w.op("MatMul", x, w.weight(width, other)), other))
        elif what < 0.6 and others:
            values.append((w.op(rng.choice(("Add", "Mul", "Sub")), x, rng.choice(others)), width))
        elif what < 0.7 and width < 2_000:
            y, size = rng.choice(values[-20:])
            values.append((w.op("Concat", x, y, axis=3), width + size))
        elif what < 0.8:
            values.append((w.op("LayerNormalization", x, w.weight(width), w.weight(width), axis=-1), width))
        else:
            values.append((w.op(rng.choice(("Relu", "Sigmoid", "Tanh", "Softmax")), x), width))
    return w.model(values[-1][0])


def large(size: int) -> bytes:
    """Few ops on tensors of many elements."""
    w = Writer()
    x = w.input(1, 1, size, size)
    y = w.op("Softmax", w.op("MatMul", x, w.weight(size, size)), axis=-1)
    return w.model(w.op("Add", w.op("Transpose", y, perm=[0, 1, 3, 2]), x))


def pyramid(levels: int, width: int) -> bytes:
    """Pools down and joins up, every level read again on the way back."""
    w = Writer()
    x = w.input(1, 32, width, width)
    kept = []
    for _ in range(levels):
        x = w.op("Relu", w.op("Conv", x, w.weight(32, 32, 3, 3), pads=[1, 1, 1, 1]))
        kept.append(x)
        x = w.op("MaxPool", x, kernel_shape=[2, 2], strides=[2, 2])
    for y in reversed(kept):
        x = w.op("ConvTranspose", x, w.weight(32, 32, 2, 2), kernel_shape=[2, 2], strides=[2, 2])
        x = w.op("Conv", w.op("Concat", x, y, axis=1), w.weight(32, 64, 3, 3), pads=[1, 1, 1, 1])
    return w.model(x)


def _heads(w: Writer, x: str, tokens: int, hidden: int) -> str:
    return w.op("Transpose", w.op("Reshape", x, w.integers(1, tokens, 4, hidden // 4)), perm=[0, 2, 1, 3])


def _pairs(names: list[str]) -> list[list[str]]:
    return [names[k : k + 2] for k in range(0, len(names), 2)]


GRAPHS: dict[str, Callable[[], bytes]] = {
    **{f"concat-of-one-{n}": partial(concat_of_one, n) for n in (50, 300, 1000)},
    "concat-of-narrow-1000": partial(concat_of_one, 1000, 7),
    **{f"concat-{n}": partial(concat, n) for n in (100, 300, 1000)},
    **{f"fan-{n}": partial(fan, n) for n in (64, 500, 2000)},
    "fan-softmax-300": partial(fan, 300, "Softmax"),
    **{f"outputs-{n}": partial(outputs, n) for n in (100, 1000)},
    **{f"split-{n}": partial(split, n) for n in (64, 256)},
    "slices-200": partial(slices, 200),
    **{f"chain-{n}": partial(chain, n) for n in (100, 600, 5000)},
    "chain-relu-2000": partial(chain, 2000, ("Relu", "Neg")),
    **{f"ladder-{n}": partial(ladder, n) for n in (200, 1000)},
    **{f"dense-{n}": partial(dense, n) for n in (20, 60, 120)},
    **{f"matmuls-{n}": partial(matmuls, n) for n in (50, 400)},
    "matmuls-uneven-150": partial(matmuls, 150, True),
    **{f"convolutions-{n}": partial(convolutions, n) for n in (20, 100)},
    "convolutions-uneven-50": partial(convolutions, 50, True),
    **{f"layers-{n}": partial(layers, n) for n in (2, 12, 40)},
    "layers-long-2": partial(layers, 2, 4096, 1024),
    **{f"movements-{n}": partial(movements, n) for n in (60, 600)},
    "reductions-200": partial(reductions, 200),
    **{f"random-{n}": partial(random_graph, n) for n in (100, 500, 2000, 5000)},
    "large-8192": partial(large, 8192),
    "pyramid-4": partial(pyramid, 4, 128),
}
"""Name -> what makes the file."""
