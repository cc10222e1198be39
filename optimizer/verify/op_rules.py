"""Ops with their configs: what the OpModel accepts and gives, and configs that say something else than their ops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields

from optimizer.errors import TtoptError
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.padding import exposed
from optimizer.ir.vocabulary import COPY, FILL, opdef
from optimizer.layouts.op_config import Conv2dConfig, InPlaceConfig
from optimizer.layouts.overrides import parse_overrides
from optimizer.result import Role
from optimizer.verify.subject import Error, Subject

_DECIDED = (
    "weights_dtype", "activation", "deallocate_activation", "act_block_h_override", "shard_layout", "slice",
    "enable_act_double_buffer", "enable_weights_double_buffer",
)  # fmt: skip
"""Fields of a conv's config that our policies decide."""
LOW = -1e9
"""Padding this low or lower hides what it stands for."""


def runs(subject: Subject) -> Iterator[Error]:
    """The OpModel accepts every op with its operands as they lie, and gives exactly what is stated."""
    for op in subject.run_ops():
        answer = subject.answers[op.id]
        if not answer.valid:
            yield op.id, f"{op.op} is refused: {answer.error}"
            continue
        stated = [subject.layouts[v] for v in op.outputs]
        if len(answer.outputs) != len(stated):
            yield op.id, f"{op.op} gives {len(answer.outputs)} results, {len(stated)} are stated"
        for v, layout, given in zip(op.outputs, stated, answer.outputs, strict=False):
            value = subject.graph.value(v)
            if given.layout != layout:
                yield op.id, f"'{v}' is stated as {layout.describe()}, {op.op} gives {given.layout.describe()}"
            if (given.shape, given.dtype) != (value.shape, value.dtype):
                yield (
                    op.id,
                    f"'{v}' is stated as {list(value.shape)} {value.dtype.value}, "
                    f"{op.op} gives {list(given.shape)} {given.dtype.value}",
                )


def gives_what_is_asked(subject: Subject) -> Iterator[Error]:
    """An op gives its first result in the memory that it is asked for."""
    for op in subject.graph.ops():
        asked = subject.records[op.id].request
        if asked is None:
            continue
        given = subject.layout(op.outputs[0]).memory
        same = (asked.memory_layout, asked.buffer_type) == (given.memory_layout, given.buffer_type)
        if not same or asked.shard_spec not in (None, given.shard_spec):
            yield op.id, f"is asked for another memory config than that of '{op.outputs[0]}'"


def hides_padding(subject: Subject) -> Iterator[Error]:
    """Padding that an op takes for elements is filled, and only copied as tiles from there."""
    for op in subject.run_ops():
        for position, value in exposed(subject.graph, op):
            made = subject.graph.producer(op.inputs[position])
            while made is not None and made.op == COPY:
                made = subject.graph.producer(made.inputs[0])
            filling = None if made is None or made.op != FILL else float(str(made.attrs["value"]))
            if filling is None or not (filling <= LOW if value < 0 else filling == value):
                yield (
                    op.id,
                    f"takes what the last tiles of '{op.inputs[position]}' hold for elements: {FILL} is missing",
                )


def has_its_own_config(subject: Subject) -> Iterator[Error]:
    """An op has a config of its own kind; copies and ops on the host have none."""
    for op in subject.graph.ops():
        config = subject.records[op.id].config
        if config is None:
            continue
        row = opdef(op.op)
        takes = row.in_place if isinstance(config, InPlaceConfig) else row.config is config.family
        if not takes or subject.role(op) is not Role.COMPUTE:
            yield op.id, f"{op.op} as {subject.role(op).value} takes no config of kind {config.kind}"


def applies_its_activation(subject: Subject) -> Iterator[Error]:
    """An activation that a config names is the op's."""
    for op in subject.run_ops():
        config = subject.records[op.id].config
        own = op.attrs.get("activation") or None
        if isinstance(config, Conv2dConfig):
            if (config.activation or None) != own:
                yield op.id, f"the config applies {config.activation or 'nothing'}, the op {own or 'nothing'}"
        elif (fused := getattr(config, "fused_activation", None)) not in (None, own):
            yield op.id, f"the config applies {fused}, the op {own or 'nothing'}"


def convolves_as_configured(subject: Subject) -> Iterator[Error]:
    """A conv's config agrees with its weights, its result and the options."""
    fixed = _fixed_fields(subject)
    for op in subject.run_ops():
        if opdef(op.op).config is not ConfigFamily.CONV2D:
            continue
        config = subject.records[op.id].config
        if config is None and subject.is_ours and subject.result.options.optimization_level > 0:
            yield op.id, "a convolution without a config"
        if isinstance(config, Conv2dConfig):
            own = fixed.get(op.id, frozenset())
            yield from ((op.id, message) for name, message in _contradictions(subject, op, config) if name not in own)


def _contradictions(subject: Subject, op: Op, config: Conv2dConfig) -> Iterator[tuple[str, str]]:
    """(field, what it contradicts)."""
    weight, result = subject.graph.value(op.inputs[1]), subject.layout(op.outputs[0])
    wanted = config.weights_dtype
    prepared = wanted is not None and DType(wanted).is_block_float and weight.dtype in (DType.BF16, DType.F32)
    if wanted not in (None, weight.dtype.value) and not prepared:
        yield "weights_dtype", f"prepares weights of {weight.dtype.value} as {wanted}"
    sliced = subject.is_ours or not subject.layout(op.inputs[0]).is_l1
    if config.slice == "auto" and result.is_l1 and sliced:
        yield "slice", f"slices its operand, but gives {result.describe()}"
    if config.shard_layout is not None and result.is_sharded and config.shard_layout != result.memory_layout.value:
        yield "shard_layout", f"is told {config.shard_layout}, but gives {result.describe()}"
    if config.output_layout != result.page_layout.value:
        yield "output_layout", f"is told {config.output_layout}, but gives {result.describe()}"
    if subject.is_ours:
        yield from _left_to_ttnn(subject, config, sharded=result.is_sharded)


def _left_to_ttnn(subject: Subject, config: Conv2dConfig, sharded: bool) -> Iterator[tuple[str, str]]:
    """What one of our plans does not decide, and what it always does."""
    default = Conv2dConfig()
    for f in fields(Conv2dConfig):
        if f.name not in _DECIDED and getattr(config, f.name) != getattr(default, f.name):
            yield f.name, f"sets '{f.name}', which a plan leaves to TTNN"
    if sharded and config.shard_layout is None:
        yield "shard_layout", "leaves the sharding of its result to TTNN"
    block = subject.result.options.weights_dtype or subject.result.options.activations_dtype
    if config.weights_dtype is None:
        yield "weights_dtype", "leaves the type of its weights to TTNN"
    elif block is not None and DType(block).is_block_float and not DType(config.weights_dtype).is_block_float:
        yield "weights_dtype", f"prepares weights as {config.weights_dtype}, the options say {block}"


def _fixed_fields(subject: Subject) -> dict[str, frozenset[str]]:
    """Op id -> fields of its config that the user fixed."""
    options = subject.result.options
    try:
        overrides = parse_overrides(subject.graph, options.override_output_layout, options.override_conv2d_config, "")
    except TtoptError:  # `override_rules` says what does not fit
        return {}
    return {op_id: frozenset(given) for op_id, given in overrides.conv2d_configs.items()}
