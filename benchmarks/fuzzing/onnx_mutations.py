"""Ways to change an ONNX model: its fields, edges, tensors and bytes."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto

from fuzzing.onnx_seeds import seeds

Mutator = Callable[[onnx.ModelProto, random.Random], None]

WHOLE = (
    0, 1, -1, 2, 3, 5, 7, 16, 31, 63, 255, 4096, 1 << 16, 10**6, (1 << 31) - 1, 1 << 31, (1 << 33) + 1, 10**11,
    (1 << 63) - 1, -(1 << 63),
)  # fmt: skip
REAL = (0.0, -1.0, 0.5, 1e-30, 1e30, 3e38, float("inf"), float("-inf"), float("nan"))
TEXT = (
    *("SAME_UPPER", "SAME_LOWER", "VALID", "nearest", "linear", "cubic", "not_smaller", "reflect", "wrap", "bilinear"),
    "",
    "x",
    "Relu",
    "a\nb",
    "\x00",
    "\u2028",
    "9**9**9",
    "x" * 300,
    "../../x",
    "my",
    "in0",
    "y",
    "{}",
    "%s",
    "''\"",
)
OUTSIDE = ("../canary.bin", "canary-link.bin", "pipe", "/dev/zero", "/dev/stdin", "/proc/self/environ", "/etc/hostname")
INSIDE = ("inside.bin", "sub/inside.bin", "./inside.bin", "missing.bin", "sub/../inside.bin", "\x00", "")


# -- the protobuf tree -----------------------------------------------------------------------------
def parts(root: Message) -> Iterator[Message]:
    """All messages of a protobuf tree in a fixed order."""
    stack = [root]
    while stack:
        message = stack.pop()
        yield message
        for field, value in message.ListFields():
            if field.type == FieldDescriptor.TYPE_MESSAGE:
                stack += list(value) if field.is_repeated else [value]


def pick(root: Message, rng: random.Random, *kinds: type[Message]) -> Any:
    """One message of these kinds; None when there is none."""
    found = [m for m in parts(root) if isinstance(m, kinds)]
    return rng.choice(found) if found else None


def names(model: onnx.ModelProto) -> list[str]:
    return [n for node in model.graph.node for n in [*node.input, *node.output]] + [
        t.name for t in model.graph.initializer
    ]


# -- mutators --------------------------------------------------------------------------------------
def field(model: onnx.ModelProto, rng: random.Random) -> None:
    """Any field of any message: another value, gone, twice, in another order."""
    message = rng.choice(list(parts(model)))
    filled = message.ListFields()
    described = rng.choice([f for f, _ in filled] or list(message.DESCRIPTOR.fields))
    name = described.name
    if described.is_repeated:
        entries = getattr(message, name)
        what = rng.choice(("drop", "double", "change", "clear"))
        if what == "clear" or not len(entries):
            message.ClearField(name)
        elif what == "drop":
            del entries[rng.randrange(len(entries))]
        elif described.type == FieldDescriptor.TYPE_MESSAGE:
            entries.add().CopyFrom(rng.choice(list(entries)))
        elif what == "double":
            entries.append(rng.choice(list(entries)))
        else:
            entries[rng.randrange(len(entries))] = _value(described, model, rng)
    elif described.type == FieldDescriptor.TYPE_MESSAGE or rng.random() < 0.2:
        message.ClearField(name)
    else:
        setattr(message, name, _value(described, model, rng))


def _value(described: Any, model: onnx.ModelProto, rng: random.Random) -> Any:
    if described.type == FieldDescriptor.TYPE_STRING:
        return rng.choice([*TEXT, *names(model)])
    if described.type == FieldDescriptor.TYPE_BYTES:
        return rng.choice((b"", b"\xff\xfe", rng.randbytes(rng.choice((1, 4, 8, 64)))))
    if described.type in (FieldDescriptor.TYPE_FLOAT, FieldDescriptor.TYPE_DOUBLE):
        return rng.choice(REAL)
    if described.type == FieldDescriptor.TYPE_ENUM:
        return rng.choice([v.number for v in described.enum_type.values])
    low, high = (
        (-(1 << 31), (1 << 31) - 1)
        if described.cpp_type == FieldDescriptor.CPPTYPE_INT32
        else (-(1 << 63), (1 << 63) - 1)
    )
    if described.cpp_type in (FieldDescriptor.CPPTYPE_UINT32, FieldDescriptor.CPPTYPE_UINT64):
        low, high = 0, (1 << 64) - 1 if described.cpp_type == FieldDescriptor.CPPTYPE_UINT64 else (1 << 32) - 1
    return min(high, max(low, rng.choice(WHOLE)))


def dims(model: onnx.ModelProto, rng: random.Random) -> None:
    """A size of an input or tensor."""
    target = pick(model, rng, onnx.TensorShapeProto, TensorProto)
    if isinstance(target, TensorProto):
        if target.dims:
            target.dims[rng.randrange(len(target.dims))] = rng.choice(WHOLE)
        if rng.random() < 0.5:
            for name in ("raw_data", "float_data", "int64_data", "int32_data"):
                target.ClearField(name)
    elif target is not None:
        what = rng.randrange(3)
        if what == 0 and target.dim:
            target.dim[rng.randrange(len(target.dim))].dim_value = rng.choice(WHOLE)
        elif what == 1:
            target.dim.add().dim_value = rng.choice((1, 2, 3))
        elif target.dim:
            target.dim[rng.randrange(len(target.dim))].dim_param = rng.choice(TEXT)


def attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    """An attribute's number, or one more number."""
    target = pick(model, rng, onnx.AttributeProto)
    if target is None:
        return
    if target.type == onnx.AttributeProto.INTS and len(target.ints):
        target.ints[rng.randrange(len(target.ints))] = rng.choice(WHOLE)
    elif target.type == onnx.AttributeProto.INT:
        target.i = rng.choice(WHOLE)
    elif target.type == onnx.AttributeProto.FLOAT:
        target.f = rng.choice(REAL)
    elif target.type == onnx.AttributeProto.STRING:
        target.s = rng.choice(TEXT).encode() if rng.random() < 0.8 else b"\xff\xfe"


def new_attribute(model: onnx.ModelProto, rng: random.Random) -> None:
    """One of the op's attributes that the seed leaves out."""
    target = pick(model, rng, onnx.NodeProto)
    if target is None or not onnx.defs.has(target.op_type):
        return
    known = sorted(onnx.defs.get_schema(target.op_type).attributes.items())
    if not known:
        return
    name, stated = rng.choice(known)
    made: Any = {
        onnx.AttributeProto.INT: rng.choice(WHOLE),
        onnx.AttributeProto.FLOAT: rng.choice(REAL),
        onnx.AttributeProto.STRING: rng.choice(TEXT),
        onnx.AttributeProto.INTS: [rng.choice(WHOLE[:8]) for _ in range(rng.randint(1, 4))],
        onnx.AttributeProto.FLOATS: [rng.choice(REAL) for _ in range(rng.randint(1, 4))],
    }.get(int(stated.type.value))
    if made is not None:
        target.attribute.append(onnx.helper.make_attribute(name, made))


def constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another number in a small constant, such as an axis, a size or a depth."""
    target = pick(model, rng, TensorProto)
    if target is None or target.data_type not in (TensorProto.INT64, TensorProto.FLOAT) or len(target.raw_data) % 8:
        return
    array = np.frombuffer(target.raw_data, "<i8" if target.data_type == TensorProto.INT64 else "<f4").copy()
    if array.size:
        array[rng.randrange(array.size)] = rng.choice(WHOLE if target.data_type == TensorProto.INT64 else REAL)
        target.raw_data = array.tobytes()


def edge(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node reads another value, or one more, or none."""
    target = pick(model, rng, onnx.NodeProto)
    if target is None:
        return
    known = names(model)
    if target.input and rng.random() < 0.7:
        target.input[rng.randrange(len(target.input))] = rng.choice([*known, ""])
    else:
        target.input.append(rng.choice(known or ["x"]))


def many(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node with very many operands or results, or very many such nodes."""
    target = pick(model, rng, onnx.NodeProto)
    if target is None:
        return
    count = rng.choice((30, 300, 3000, 30000))
    if rng.random() < 0.4 and target.input:
        target.input.extend([target.input[-1]] * count)
    elif rng.random() < 0.5:
        target.output.extend(f"more{i}" for i in range(count))
    else:
        for i in range(min(count, 300)):
            copy = model.graph.node.add()
            copy.CopyFrom(target)
            copy.output[:] = [f"{name}_{i}" for name in copy.output]


def doubling(model: onnx.ModelProto, rng: random.Random) -> None:
    """A chain in which each value is twice the one before."""
    value = rng.choice(names(model) or ["x"])
    op, attrs = rng.choice((("Concat", {"axis": 0}), ("Mul", {}), ("Add", {}), ("MatMul", {}), ("Sum", {})))
    for i in range(rng.choice((8, 40, 200))):
        model.graph.node.append(onnx.helper.make_node(op, [value, value], [f"d{i}"], **attrs))
        value = f"d{i}"
    model.graph.output.add().name = value


def op_type(model: onnx.ModelProto, rng: random.Random) -> None:
    """Another op on the same operands."""
    target = pick(model, rng, onnx.NodeProto)
    if target is not None:
        target.op_type = rng.choice(sorted({s.name for s in onnx.defs.get_all_schemas() if s.domain == ""}))
        if rng.random() < 0.5:
            del target.attribute[:]


def element_type(model: onnx.ModelProto, rng: random.Random) -> None:
    target = pick(model, rng, TensorProto, onnx.TypeProto.Tensor)
    kinds = sorted(TensorProto.DataType.values())
    if isinstance(target, TensorProto):
        target.data_type = rng.choice(kinds)
    elif target is not None:
        target.elem_type = rng.choice(kinds)


def constants_only(model: onnx.ModelProto, rng: random.Random) -> None:
    """Inputs of the graph become constants."""
    for info in list(model.graph.input):
        sizes = [d.dim_value for d in info.type.tensor_type.shape.dim]
        if info.type.tensor_type.elem_type == TensorProto.FLOAT and all(0 < s < 100 for s in sizes):
            count = 1
            for size in sizes:
                count *= size
            if count <= 1 << 16:
                numbers = [rng.choice((0.0, 0.5, 1.0, 2.0))] * count
                model.graph.initializer.append(onnx.helper.make_tensor(info.name, TensorProto.FLOAT, sizes, numbers))
                model.graph.input.remove(info)


def into_constant(model: onnx.ModelProto, rng: random.Random) -> None:
    """An initializer becomes a Constant node."""
    if model.graph.initializer:
        tensor = model.graph.initializer.pop(rng.randrange(len(model.graph.initializer)))
        made = onnx.helper.make_node("Constant", [], [tensor.name], value=tensor)
        model.graph.node.insert(0, made)


def into_branch(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node moves into both branches of an If, with its constants."""
    if not model.graph.node:
        return
    index = rng.randrange(len(model.graph.node))
    inner = onnx.NodeProto()
    inner.CopyFrom(model.graph.node[index])
    outputs = [onnx.helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in inner.output]
    tensors = [t for t in model.graph.initializer if t.name in inner.input]
    for output, name in zip(outputs, inner.output, strict=True):
        output.name = f"inner_{name}" if name else ""
    inner.output[:] = [output.name for output in outputs]
    graph = onnx.helper.make_graph([inner], "branch", [], outputs, tensors)
    choice = onnx.helper.make_node(
        "If", ["choose"], list(model.graph.node[index].output), then_branch=graph, else_branch=graph
    )
    model.graph.node[index].CopyFrom(choice)
    model.graph.initializer.append(onnx.helper.make_tensor("choose", TensorProto.BOOL, [], [True]))
    if rng.random() < 0.7:
        kept = [t for t in model.graph.initializer if t.name not in inner.input]
        del model.graph.initializer[:]
        model.graph.initializer.extend(kept)


def into_function(model: onnx.ModelProto, rng: random.Random) -> None:
    """A node becomes a call of a function with that node as its body."""
    if not model.graph.node:
        return
    index = rng.randrange(len(model.graph.node))
    inner = onnx.NodeProto()
    inner.CopyFrom(model.graph.node[index])
    reads = list(dict.fromkeys(n for n in inner.input if n))
    imports = list(model.opset_import)
    body = onnx.helper.make_function("my", f"F{index}", reads, list(inner.output), [inner], imports)
    model.functions.append(body)
    call = onnx.helper.make_node(f"F{index}", reads, list(inner.output), domain="my")
    model.graph.node[index].CopyFrom(call)


def external(model: onnx.ModelProto, rng: random.Random) -> None:
    """A tensor, wherever it stands, says that its data are in another file."""
    target = pick(model, rng, TensorProto)
    if target is None or rng.random() < 0.3:
        host = pick(model, rng, onnx.NodeProto)
        if host is None:
            return
        added = onnx.helper.make_attribute(
            rng.choice(("value", "t", "fill")), onnx.helper.make_tensor("n", 1, [4], [1.0] * 4)
        )
        where = rng.randrange(4)
        if where == 0:
            host.attribute.append(added)
            target = host.attribute[-1].t
        elif where == 1:
            many_ = host.attribute.add(name="tensors", type=onnx.AttributeProto.TENSORS)
            target = many_.tensors.add()
            target.CopyFrom(added.t)
        elif where == 2:
            sparse = host.attribute.add(name="sparse_value", type=onnx.AttributeProto.SPARSE_TENSOR).sparse_tensor
            target = rng.choice((sparse.values, sparse.indices))
            target.CopyFrom(added.t)
        else:
            sparse = model.graph.sparse_initializer.add()
            sparse.dims.append(8)
            target = rng.choice((sparse.values, sparse.indices))
            target.CopyFrom(added.t)
    target.data_location = TensorProto.EXTERNAL
    for name in ("raw_data", "float_data"):
        target.ClearField(name)
    entries = {"location": rng.choice(OUTSIDE + INSIDE)}
    if rng.random() < 0.4:
        entries["offset"] = rng.choice(("0", "4", "-1", "99999999999", "x", "1e3"))
    if rng.random() < 0.4:
        entries["length"] = rng.choice(("0", "4", "16", "-1", "99999999999"))
    for key, value in entries.items():
        target.external_data.add(key=key, value=value)


def opset(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.opset_import:
        rng.choice(model.opset_import).version = rng.choice((7, 9, 10, 11, 12, 13, 15, 17, 18, 19, 20, 22, 23, 24, -1))


def drop_node(model: onnx.ModelProto, rng: random.Random) -> None:
    if model.graph.node:
        del model.graph.node[rng.randrange(len(model.graph.node))]


def splice(model: onnx.ModelProto, rng: random.Random) -> None:
    """The nodes of another seed beside, reading a value of this one."""
    other = onnx.ModelProto()
    other.CopyFrom(rng.choice(list(seeds().values())))
    known = names(model) or ["x"]
    swap = {i.name: rng.choice(known) for i in other.graph.input}
    rename = {n: f"o_{n}" for node in other.graph.node for n in node.output if n}
    rename |= {t.name: f"o_{t.name}" for t in other.graph.initializer}
    for node in other.graph.node:
        node.input[:] = [swap.get(n, rename.get(n, n)) for n in node.input]
        node.output[:] = [rename.get(n, n) for n in node.output]
    for tensor in other.graph.initializer:
        tensor.name = rename[tensor.name]
    model.graph.node.extend(other.graph.node)
    model.graph.initializer.extend(other.graph.initializer)
    for output in other.graph.output:
        model.graph.output.add().name = rename.get(output.name, output.name)


MUTATORS: tuple[tuple[Mutator, int], ...] = (
    (field, 8), (dims, 5), (attribute, 8), (new_attribute, 6), (constant, 6), (edge, 5), (many, 1), (doubling, 1),
    (op_type, 4), (element_type, 3), (constants_only, 4), (into_constant, 2), (into_branch, 3), (into_function, 3),
    (external, 6), (opset, 3), (drop_node, 1), (splice, 3),
)  # fmt: skip


def spoil(data: bytes, rng: random.Random) -> bytes:
    """Bytes cut off, turned or put in."""
    changed = bytearray(data)
    what = rng.randrange(4)
    if what == 0:
        return bytes(changed[: rng.randrange(len(changed))])
    for _ in range(rng.choice((1, 1, 2, 8))):
        at = rng.randrange(len(changed))
        if what == 1:
            changed[at] ^= 1 << rng.randrange(8)
        elif what == 2:
            changed[at] = rng.randrange(256)
        else:
            changed[at:at] = rng.randbytes(rng.choice((1, 2, 9)))
    return bytes(changed)
