"""Rows of the tt-metal answer tables: one JSON object is one op with concrete layouts.

`query_from_row` reads the question part of a row (`op`, `attrs`, `inputs`, `request_mem`,
`request_dtype`); everything measured in the row is ignored. `answer_to_row` writes the contract's answer
line. The tables spell ops and attributes as tt-metal's Python calls do; the mapping to vocabulary names
and attributes is the `_OPS` table below.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import Any

from optimizer.errors import FormatError, ShapeError, UnknownNameError
from optimizer.ir.activations import OPERAND_ACTIVATIONS
from optimizer.ir.attribute_kinds import check_kind, check_kinds
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import CostClass
from optimizer.ir.sizes import LARGEST_INDEX, MAX_ELEMENTS, MAX_RANK, check_shape
from optimizer.ir.vocabulary import op_names, opdef
from optimizer.layouts.memory_config import (
    BufferType,
    CoreRange,
    MemoryConfig,
    PageLayout,
    ShardOrientation,
    ShardSpec,
    TensorLayout,
    TensorMemoryLayout,
)
from optimizer.layouts.op_config import CONV2D_SWITCHES, OpConfig, op_config_from_json
from optimizer.opmodel.base import OpConstraints, OpQuery, TensorSpec
from optimizer.process.json_document import Node

Attrs = dict[str, Attr]
Row = Mapping[str, Any]

_MEMORY_LAYOUTS = {
    "interleaved": TensorMemoryLayout.INTERLEAVED,
    "height": TensorMemoryLayout.HEIGHT_SHARDED,
    "width": TensorMemoryLayout.WIDTH_SHARDED,
    "block": TensorMemoryLayout.BLOCK_SHARDED,
}
_MEMORY_NAMES = {v: k for k, v in _MEMORY_LAYOUTS.items()}
_PAGES = {"tile": PageLayout.TILE, "rm": PageLayout.ROW_MAJOR}
_ORIENTATIONS = {"row": ShardOrientation.ROW_MAJOR, "col": ShardOrientation.COL_MAJOR}
_ORIENTATION_NAMES = {v: k for k, v in _ORIENTATIONS.items()}
MOST_OPERANDS, MOST_RANGES = 4096, 4096
LARGEST_CORE = 63
"""Coordinate of a core, as for a board."""
HOST_MEMORY = MemoryConfig(TensorMemoryLayout.INTERLEAVED, BufferType.HOST)


def frozen(value: Any) -> Attr:
    """A JSON value as an attribute: lists and objects become nested tuples."""
    if isinstance(value, list):
        return tuple(frozen(v) for v in value)
    if isinstance(value, dict):
        return tuple((k, frozen(v)) for k, v in sorted(value.items()))
    return value  # type: ignore[no-any-return]


# -- memory configs --------------------------------------------------------------------------------------
def virtual_grid_yx(
    memory_layout: TensorMemoryLayout, ranges: tuple[CoreRange, ...], orientation: ShardOrientation
) -> tuple[int, int]:
    """The virtual (rows, columns) that a list of core rectangles stands for under a sharding."""
    cores = sum((x1 - x0 + 1) * (y1 - y0 + 1) for x0, y0, x1, y1 in ranges)
    if memory_layout is TensorMemoryLayout.HEIGHT_SHARDED:
        return (cores, 1)
    if memory_layout is TensorMemoryLayout.WIDTH_SHARDED:
        return (1, cores)
    columns = max(r[2] for r in ranges) - min(r[0] for r in ranges) + 1
    rows = max(r[3] for r in ranges) - min(r[1] for r in ranges) + 1
    return (rows, columns) if orientation is ShardOrientation.ROW_MAJOR else (columns, rows)


def memory_from_row(record: Node) -> MemoryConfig:
    """A `{memory_layout, buffer[, shard_shape, grid, orientation]}` object as a MemoryConfig. FormatError."""
    found = record.any_fields(("memory_layout", "buffer"))
    layout = _MEMORY_LAYOUTS[found["memory_layout"].text(_MEMORY_LAYOUTS)]
    buffer = BufferType(found["buffer"].text(tuple(BufferType)))
    if "shard_shape" not in found or found["shard_shape"].is_null:
        return MemoryConfig(layout, buffer)
    height, width = (side.integer(1, LARGEST_INDEX) for side in found["shard_shape"].items(exactly=2))
    ranges = tuple(map(_core_range, record.any_fields(("grid",))["grid"].items(MOST_RANGES)))
    if not ranges:
        raise found["grid"].error("at least one rectangle of cores is due")
    named = found.get("orientation")
    orientation = _ORIENTATIONS["row" if named is None or named.is_null else named.text(_ORIENTATIONS)]
    spec = ShardSpec(virtual_grid_yx(layout, ranges, orientation), (height, width), ranges, orientation)
    return MemoryConfig(layout, buffer, spec)


def _core_range(record: Node) -> CoreRange:
    x0, y0, x1, y1 = (end.integer(0, LARGEST_CORE) for end in record.items(exactly=4))
    if x1 < x0 or y1 < y0:
        raise record.error("[x0, y0, x1, y1] is due, both ends included")
    return (x0, y0, x1, y1)


def memory_to_row(memory: MemoryConfig) -> dict[str, Any]:
    """The inverse of `memory_from_row`."""
    record: dict[str, Any] = {"memory_layout": _MEMORY_NAMES[memory.memory_layout], "buffer": memory.buffer_type.value}
    spec = memory.shard_spec
    if spec is not None:
        record["shard_shape"] = list(spec.shape)
        record["grid"] = [list(r) for r in spec.core_ranges]
        record["orientation"] = _ORIENTATION_NAMES[spec.orientation]
    return record


def tensor_from_row(record: Node) -> TensorSpec:
    """An operand or a result as rows describe it (docs/formats.md). FormatError, LimitError."""
    found = record.any_fields(("shape", "dtype", "layout"))
    on_host = "host" in found and found["host"].boolean()
    layout = TensorLayout(_PAGES[found["layout"].text(_PAGES)], HOST_MEMORY if on_host else memory_from_row(record))
    shape = tuple(size.integer(1, MAX_ELEMENTS) for size in found["shape"].items(MAX_RANK))
    check_shape(found["shape"].place, shape)
    return TensorSpec(shape, DType(found["dtype"].text(tuple(DType))), layout)


# -- attributes ------------------------------------------------------------------------------------------
def _without(*dropped: str, **names: str) -> Callable[[Row, tuple[TensorSpec, ...]], Attrs]:
    """Attributes but for these, under vocabulary names: `_without(dims="axes")` reads `axes` as `dims`."""
    back = {old: new for new, old in names.items()}

    def read(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
        return {back.get(k, k): _read(k, v) for k, v in attrs.items() if k not in dropped}

    return read


_NAMES = ("activation", "activations", *OPERAND_ACTIVATIONS)


def _read(name: str, value: Any) -> Attr:
    """An attribute; names of activations, which tt-metal has in capitals, as the vocabulary has them."""
    words = [v.lower() if isinstance(v, str) else v for v in (value if isinstance(value, list) else [value])]
    return frozen(value if name not in _NAMES else words if isinstance(value, list) else words[0])


_plain = _without()


def _window(attrs: Row) -> Attrs:
    pad = attrs["p"]
    return {
        "batch_size": attrs["n"],
        "input_height": attrs["h"],
        "input_width": attrs["w"],
        "kernel_size": tuple(attrs["k"]),
        "stride": tuple(attrs["s"]),
        "padding": (pad[0], pad[0], pad[1], pad[1]) if len(pad) == 2 else tuple(pad),
        "dilation": tuple(attrs.get("dil", (1, 1))),
    }


_SLICED = {"h": "height", "w": "width"}
_CONV_FIELDS = ("weights_dtype", *CONV2D_SWITCHES)


def _conv_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    found = _window(attrs)
    found.update(in_channels=attrs["cin"], out_channels=attrs["cout"], groups=attrs.get("groups", 1))
    if "op" in attrs:
        found["output_padding"] = tuple(attrs["op"])
    for key, value in (attrs.get("config") or {}).items():
        if key not in _CONV_FIELDS and key not in ("shard_layout", "activation", "output_layout"):
            found[key] = frozen(value)
    if attrs.get("compute"):
        found["compute"] = frozen(attrs["compute"])
    return found


def _conv_config(attrs: Row) -> dict[str, Any]:
    config = attrs.get("config") or {}
    fields: dict[str, Any] = {k: config[k] for k in _CONV_FIELDS if k in config}
    if config.get("shard_layout"):
        fields["shard_layout"] = _MEMORY_LAYOUTS[config["shard_layout"]].value
    if config.get("activation"):
        fields["activation"] = config["activation"].lower()
    if config.get("output_layout"):
        fields["output_layout"] = _PAGES[config["output_layout"]].value
    sliced = attrs.get("slice")
    if sliced:
        fields["slice"] = "l1" if sliced == "l1" else f"dram_{_SLICED[sliced[0]]}:{sliced[1]}"
    return {"kind": "conv2d", **fields}


def _pool_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    found = _window(attrs)
    found.update(channels=attrs["c"], ceil_mode=bool(attrs.get("ceil", False)))
    if attrs.get("applied_shard_scheme"):
        found["applied_shard_scheme"] = _MEMORY_LAYOUTS[attrs["applied_shard_scheme"]].value
    return found


def _norm_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    found: Attrs = {"compute": frozen(attrs["compute"])} if attrs.get("compute") else {}
    if len(inputs) > 3:
        found["residual"] = True
    return found


def _group_norm_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    found = _without(num_groups="groups")(attrs, inputs)
    if "output_layout" in attrs:
        found["output_layout"] = _PAGES[attrs["output_layout"]].value
    return found


def _slice_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    step = attrs.get("step")
    return {
        "begins": tuple(attrs["begin"]),
        "ends": tuple(attrs["end"]),
        "steps": None if step is None else tuple(step),
    }


def _split_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    size, dim = attrs["size"], attrs["dim"]
    if isinstance(size, list):
        return {"sizes": tuple(size), "dim": dim}
    total = inputs[0].shape[dim]
    return {"sizes": tuple(min(size, total - at) for at in range(0, total, size)), "dim": dim, "size": size}


def _upsample_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    scale = attrs["scale"]
    pair = tuple(scale) if isinstance(scale, list) else (scale, scale)
    return {"scale_factor": pair, "mode": attrs.get("mode", "nearest")}


def _heads_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    return {"num_heads": attrs["heads"], "num_kv_heads": attrs.get("kv"), "transpose_key": attrs.get("tk", True)}


def _nlp_heads_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    return {**_heads_attrs(attrs, inputs), "transpose_key": attrs.get("tk", False)}


def _page_attr(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    return {"layout": _PAGES[attrs.get("layout", "tile")].value}


def _sdpa_attrs(attrs: Row, inputs: tuple[TensorSpec, ...]) -> Attrs:
    return {**_without("program_config", "causal")(attrs, inputs), "is_causal": bool(attrs.get("causal", False))}


_OPS: dict[str, tuple[str, Callable[[Row, tuple[TensorSpec, ...]], Attrs]]] = {
    "matmul": ("ttnn.matmul", _without("program_config")),
    "linear": ("ttnn.linear", _without("program_config")),
    "conv2d": ("ttnn.conv2d", _conv_attrs),
    "conv_transpose2d": ("ttnn.conv_transpose2d", _conv_attrs),
    "max_pool2d": ("ttnn.max_pool2d", _pool_attrs),
    "avg_pool2d": ("ttnn.avg_pool2d", _pool_attrs),
    "upsample": ("ttnn.upsample", _upsample_attrs),
    "layer_norm": ("ttnn.layer_norm", _norm_attrs),
    "rms_norm": ("ttnn.rms_norm", _norm_attrs),
    "group_norm": ("ttnn.group_norm", _group_norm_attrs),
    "transpose": ("ttnn.transpose", _without(dim0="d0", dim1="d1")),
    "slice": ("ttnn.slice", _slice_attrs),
    "split": ("ttnn.split", _split_attrs),
    "repeat": ("ttnn.repeat", _without(repeats="reps")),
    "repeat_interleave": ("ttnn.repeat_interleave", _without(repeats="n")),
    "embedding": ("ttnn.embedding", _page_attr),
    "to_layout": ("ttnn.to_layout", _page_attr),
    "pow_scalar": ("ttnn.pow_scalar", _without(exponent="exp")),
    "sdpa": ("ttnn.scaled_dot_product_attention", _sdpa_attrs),
    "sdpa_decode": ("ttnn.scaled_dot_product_attention_decode", _plain),
    "split_qkv": ("ttnn.split_query_key_value_and_split_heads", _heads_attrs),
    "concat_heads": ("ttnn.concatenate_heads", _plain),
    "nlp_create_qkv_heads": ("ttnn.nlp_create_qkv_heads", _nlp_heads_attrs),
}
"""Row op name -> (query op name, attribute reader); any other name is `ttnn.<name>` with plain attributes."""

EXTRA_OPS = (
    *("ttnn.attention_softmax", "ttnn.clone", "ttnn.interleaved_to_sharded", "ttnn.reshard"),
    *("ttnn.sharded_to_interleaved", "ttnn.tilize", "ttnn.tilize_with_zero_padding", "ttnn.unsqueeze", "ttnn.untilize"),
)
"""TTNN calls that rows name and graphs never do: a graph says `to_layout`, `to_memory_config`, `reshape`."""


_WINDOWS = {"full_inner_dim": "bool", "config_tensors_in_dram": "bool", "enable_kernel_stride_folding": "bool"}
_EXTRA_ATTRS: dict[str, dict[str, str]] = {
    "ttnn.matmul": {"core_grid": "sizes"},
    "ttnn.linear": {"core_grid": "sizes"},
    "ttnn.conv2d": _WINDOWS,
    "ttnn.conv_transpose2d": _WINDOWS,
    "ttnn.max_pool2d": {"applied_shard_scheme": "sharding"},
    "ttnn.avg_pool2d": {"applied_shard_scheme": "sharding"},
    "ttnn.layer_norm": {"residual": "bool"},
    "ttnn.rms_norm": {"residual": "bool"},
    "ttnn.group_norm": {"core_grid": "sizes", "inplace": "bool", "num_out_blocks": "size", "output_layout": "page"},
    "ttnn.split": {"size": "size"},
    "ttnn.embedding": {"layout": "page"},
    "ttnn.attention_softmax": {"head_size": "size"},
    "ttnn.unsqueeze": {"dim": "int"},
}
"""Attributes that rows have beside those of the vocabulary, as arguments of a call are: op -> name -> kind."""
_ARGUMENTS = {"args": "numbers", "kwargs": "arguments"}
"""Likewise, of elementwise ops: what a call is given beside its tensors."""
_MATMUL_CONFIGS = {"1d": "matmul_1d", "2d": "matmul_2d", "dram": "matmul_dram_sharded", "reuse": "matmul_reuse"}


def _config(op: str, attrs: Row, place: str) -> OpConfig | None:
    if op in ("conv2d", "conv_transpose2d"):
        return op_config_from_json(_conv_config(attrs), place)
    config = attrs.get("program_config")
    if not config:
        return None
    fields = {k: v for k, v in config.items() if k != "grid"}
    if "grid" in config:
        fields["compute_with_storage_grid_yx"] = (config["grid"][1], config["grid"][0])
    if op in ("matmul", "linear"):
        if fields.get("fused_activation"):
            fields["fused_activation"] = fields["fused_activation"].lower()
        kind = _MATMUL_CONFIGS.get(fields.pop("kind"), "matmul_reuse")
    else:
        kind = "sdpa" if op == "sdpa" else "layer_norm_sharded"
    return op_config_from_json({**fields, "kind": kind}, place)


def query_from_row(row: Any, place: str = "row") -> OpQuery:
    """The question of a row; InputError names `place` and what is wrong.

    Names, kinds and sizes are all checked here, before anything is computed of them. Operands that do not fit their op
    are left to the backend, whose answer that is.
    """
    found = Node(row, place).any_fields(("op", "inputs"))
    op = found["op"].text()
    name, read = _OPS.get(op, (f"ttnn.{op}", _plain))
    if name not in op_names() and name not in EXTRA_OPS:
        known = [*_OPS, *(n.removeprefix("ttnn.") for n in (*op_names(), *EXTRA_OPS))]
        raise UnknownNameError("row op", op, known, node=place)
    inputs = tuple(map(tensor_from_row, found["inputs"].items(MOST_OPERANDS)))
    attrs = {} if "attrs" not in found else found["attrs"].any_fields() and found["attrs"].value
    requested, typed = found.get("request_mem"), found.get("request_dtype")
    dtype = None if typed is None or typed.is_null else DType(typed.text(tuple(DType)))
    try:
        stated = read(attrs, inputs)
        config = _config(op, attrs, place)
    except (ArithmeticError, AttributeError, IndexError, KeyError, TypeError, ValueError) as error:
        raise FormatError(f"not a usable row: {type(error).__name__}: {error}", node=place) from error
    if op == "typecast":
        stated["dtype"] = None if dtype is None else dtype.value
    _check_attributes(Op(place, name, (), (), stated), inputs)
    return OpQuery(
        op=name,
        inputs=inputs,
        attrs=tuple(sorted(stated.items())),
        config=config,
        output=None if requested is None or requested.is_null else memory_from_row(requested),
        output_dtype=dtype,
    )


def _check_attributes(op: Op, inputs: tuple[TensorSpec, ...]) -> None:
    """InputError unless every attribute is known and of its kind, and the results that they give may exist."""
    row = opdef(op.op)
    extra = {**_EXTRA_ATTRS.get(op.op, {}), **(_ARGUMENTS if row.cost_class is CostClass.ELTWISE else {})}
    for name in extra.keys() & op.attrs.keys():
        check_kind(op, name, extra[name])
    rest = replace(op, attrs={name: value for name, value in op.attrs.items() if name not in extra})
    if row.opaque and rest.attrs:
        raise UnknownNameError(f"attribute of {op.op}", next(iter(rest.attrs)), extra, node=op.id)
    row.check_attrs(rest)
    check_kinds(row, rest)
    if not row.opaque:
        with suppress(ShapeError):  # operands that do not fit: the backend says how it refuses them
            row.infer_shapes(rest, tuple(tensor.shape for tensor in inputs))


def answer_to_row(row_id: Any, answer: OpConstraints) -> dict[str, Any]:
    """The answer line `{id, valid, kind, error, out_mem, peak_cb, peak_l1, peak_total}`; bytes per core."""
    if not answer.valid:
        kind = None if answer.kind is None else answer.kind.value
        empty = dict.fromkeys(("out_mem", "peak_cb", "peak_l1", "peak_total"))
        return {"id": row_id, "valid": False, "kind": kind, "error": answer.error, **empty}
    out = answer.outputs[0].layout.memory if answer.outputs else None
    return {
        "id": row_id,
        "valid": True,
        "kind": None,
        "error": None,
        "out_mem": None if out is None else memory_to_row(out),
        "peak_cb": answer.cb_bytes,
        "peak_l1": answer.l1_peak_bytes,
        "peak_total": answer.peak_bytes,
    }
