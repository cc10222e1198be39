"""`OpDef`: what the optimizer knows of an op, as one row of the vocabulary table.

The rows are in `optimizer.ir.vocabulary`; `opdef(name)` finds one. A name that no row has gives the
opaque row: such an op lives in DRAM, its shapes are those its values state, and the result reports it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from optimizer.errors import GraphError, LimitError, ShapeError, UnknownNameError
from optimizer.ir.compulsory import ProductRule, ReadRule, whole
from optimizer.ir.compute_config import COMPUTE, ComputeRule
from optimizer.ir.dtype import WORDS, DType
from optimizer.ir.graph import Attr, Op
from optimizer.ir.sizes import check_shape
from optimizer.process.plugins import plugin_failure

Shape = tuple[int, ...]
ShapeRule = Callable[[Mapping[str, Attr], tuple[Shape, ...]], tuple[Shape, ...]]
"""(attributes, input shapes) -> output shapes; raises ShapeError when they do not fit."""
PageRule = Callable[[Mapping[str, Attr]], "Page | None"]
"""(attributes) -> page layout that operand 0 and the result must have, None for the row's own."""
ViewRule = Callable[[Mapping[str, Attr], Shape, Shape], bool]
"""(attributes, input shape, output shape) -> whether the tiled result shares the input's buffer."""
ReturnRule = Callable[[Mapping[str, Attr], Shape, bool], bool]
"""(attributes, shape of operand and result, whether in tiles) -> whether TTNN returns the operand itself."""


class CostClass(StrEnum):
    """Families of ops that share a cost formula; shares in reports are by this name."""

    MATMUL = "matmul"
    CONV = "conv"
    ELTWISE = "eltwise"
    SOFTMAX = "softmax"
    NORM = "norm"
    REDUCE = "reduce"
    DATA_MOVEMENT = "data_movement"
    LAYOUT = "layout"
    POOL = "pool"
    UPSAMPLE = "upsample"
    SAMPLE = "sample"
    EMBEDDING = "embedding"
    SDPA = "sdpa"
    HOST = "host"


class Page(StrEnum):
    """Page layout that an operand needs or a result has."""

    TILE = "tile"
    ROW_MAJOR = "row_major"
    ANY = "any"
    """Operand: takes either. Result: follows operand 0."""
    HOST = "host"
    """Operand stays on the host in row-major form and is prepared by the op (conv weights)."""
    ATTR = "attr"
    """Result: named by attribute `layout` (the op that converts pages)."""


class DTypeRule(StrEnum):
    FIRST = "first"
    """Result type of operand 0."""
    SECOND = "second"
    """Result type of operand 1, if there is one (embedding: that of the table; where: that of what is chosen)."""
    UNPACKED = "unpacked"
    """Result type of operand 0, bf16 for block floats, which have no rows (pools)."""
    U32 = "u32"
    """Indices."""
    FIRST_INDEX = "first_index"
    """Two results: values of operand 0's type, indices (topk, sort): u16, or u32 beside f32 and u16 values."""
    ATTR = "attr"
    """Named by attribute `dtype`."""


class ConfigFamily(StrEnum):
    """Which op configs the calls of an op take; the classes are in `layouts/op_config.py`."""

    MATMUL = "matmul"
    """A matmul program config, which the shards of the result decide."""
    CONV2D = "conv2d"
    """A `Conv2dConfig`; such an op chooses the grid of its result itself."""
    NORM = "norm"
    """A program config for sharded operands, which can also say that the result takes operand 0's place."""
    SDPA = "sdpa"
    """Chunks of queries and keys."""


class Elements(StrEnum):
    """How the elements of the results come from those of the operands."""

    COMPUTED = "computed"
    SELECTED = "selected"
    """Each is one of the operands' or its negative; the numbers decide which."""
    MOVED = "moved"
    """Each is one of the operands', whatever the numbers are; some may be left out or stand there twice."""
    KEPT = "kept"
    """Those of operand 0, each once, in another place, page layout or element type."""


class Mixing(StrEnum):
    """What element types two operands may have besides the same one."""

    ANY = "any"
    """The op's own rules say."""
    NUMBERS = "numbers"
    """Floats with floats, and floats with integers of 32 bits."""
    FLOATS = "floats"
    """Floats with floats."""
    NONE = "none"

    def allows(self, first: DType, second: DType) -> bool:
        if first is second or self is Mixing.ANY:
            return True
        floats = first.is_float + second.is_float
        integers = {dtype for dtype in (first, second) if not dtype.is_float}
        return (self is not Mixing.NONE and floats == 2) or (
            self is Mixing.NUMBERS and floats == 1 and integers <= WORDS
        )


RESULT_DTYPE = "dtype"
"""Attribute that holds an element type: of ops that convert or make tensors, and what `dtype=` of a call asks for."""
ON_HOST = "on_host"
"""Attribute of a conversion that the host makes, to the nearest: a core's packer cuts off what bfp4_b does not hold."""
REQUIRED = object()
"""Marks an attribute without a default."""


def short_name(op: str) -> str:
    """An op's name without TTNN's prefix, as reports and tables by name have it."""
    return op.removeprefix("ttnn.")


@dataclass(frozen=True)
class OpDef:
    """One row of the vocabulary."""

    name: str
    cost_class: CostClass
    shapes: ShapeRule
    min_inputs: int = 1
    max_inputs: int = 1
    most_asked: int = 0
    """Operands that tt-metal takes where graphs never give as many (a residual that a norm adds first)."""
    num_outputs: int | None = 1
    """None: as many as the op states (split)."""
    attrs: Mapping[str, object] = field(default_factory=dict)
    """Attribute name -> default, or REQUIRED."""
    kinds: Mapping[str, str] = field(default_factory=dict)
    """Attribute name -> kind of its values, where neither name nor default says it (`ir.attribute_kinds`)."""
    dtype: DTypeRule = DTypeRule.FIRST
    takes: frozenset[DType] = frozenset(DType)
    """Element types of operand 0 that TTNN takes (asked of mock devices, type by type)."""
    mixes: Mixing = Mixing.ANY
    """Which other type the second operand may have."""
    operand_pages: tuple[Page, ...] = (Page.TILE,)
    """Page layout per operand; the last entry repeats."""
    output_page: Page = Page.TILE
    page_rule: PageRule | None = None
    """Page layout that depends on the attributes."""
    shardable: bool = False
    """Whether the result may be sharded in L1, so that the op can be a link of an L1 chain."""
    sharding_follows_operand: bool = False
    """Whether a sharded result has the memory layout of sharded operand 0 (tt-metal's own validation)."""
    operands_sharded_alike: bool = False
    """Whether no operand may be sharded unless all are, and alike (tt-metal's own validation)."""
    config: ConfigFamily | None = None
    """Op configs that the call takes; None for ops whose calls take none."""
    view: ViewRule | None = None
    """When the result of a tiled operand in the same placement shares its buffer."""
    view_of_shards: bool = False
    """Whether that holds for sharded operands too."""
    view_of_rows: bool = False
    """Whether it holds for row-major operands where the last dim stays, on the board and on the host (measured on
    mock devices and on Tenstorrent's simulator)."""
    returns_operand: ReturnRule | None = None
    """When TTNN returns the operand itself because nothing changes: neither shape nor element type nor placement."""
    in_place: bool = False
    """Whether one device program computes it tile by tile, so that it may write its result into an operand."""
    activations: tuple[str, ...] = ()
    """Activations that the op applies to its result in place (attribute `activation` or `activations`)."""
    compute: ComputeRule | None = None
    """Fidelity and accumulation that the op's calls state; None for ops whose calls take no compute config."""
    products: ProductRule | None = None
    """The multiplications that the matrix engine has to do; None: none."""
    must_read: ReadRule = whole
    """The elements of an operand that no run gets around."""
    elements: Elements = Elements.COMPUTED
    """Whether the results hold the operands' own elements."""
    unbounded: bool = False
    """Whether finite numbers, as padding holds them, may give infinity or NaN."""
    padding_follows: bool = False
    """Whether the result's padding is computed from the operands' padding as its elements are from theirs."""
    fills_padding: bool = False
    """Whether a view of it fills padding in its operand's tiles: those of block floats become bf16 for that."""
    rows_apart: bool = False
    """Whether a row of the result is made of one row of operand 0, rows of padding included."""
    turns_rows: bool = False
    """Whether TTNN turns rows into columns, and back, where the op works along the last dim."""
    looks_up: tuple[int, int] | None = None
    """Positions of indices and of what they choose from: along attribute `dim`, of a table its rows."""
    takes_dtype: bool = False
    """Whether the call takes `dtype=`: the element type of its result, which attribute `dtype` may state."""
    opaque: bool = False

    def operand_page(self, index: int) -> Page:
        return self.operand_pages[min(index, len(self.operand_pages) - 1)]

    def required_page(self, op: Op, index: int) -> Page:
        """Page layout that this op takes for an operand."""
        if index == 0 and self.page_rule is not None:
            demanded = self.page_rule(self.full_attrs(op))
            if demanded is not None:
                return demanded
        return self.operand_page(index)

    @property
    def moves_elements(self) -> bool:
        """Whether the results are made of the operands' elements as they are, whatever the numbers are."""
        return self.elements in (Elements.MOVED, Elements.KEPT)

    def gives_tiles(self, op: Op, from_tiles: bool) -> bool:
        """Whether the op's result comes in tiles; `from_tiles` says whether operand 0 does (False without operands)."""
        if self.output_page is Page.ATTR:
            return self.attr(op, "layout") == Page.TILE.value
        return from_tiles if self.output_page is Page.ANY else self.output_page is Page.TILE

    def is_view(self, op: Op, before: Shape, after: Shape, tiled: bool, dtype: DType) -> bool:
        """Whether the result, in the very layout and type of its operand, lies in that operand's buffer."""
        if self.fills_padding and dtype.is_block_float and any(n % 32 for n in before[-2:]):
            return False
        if not tiled:  # rows stay as they are, however many there are of each outer index
            return self.view_of_rows and (before[-1:] or (1,)) == (after[-1:] or (1,))
        return self.view is not None and self.view(self.full_attrs(op), before, after)

    def check_attrs(self, op: Op) -> None:
        """Attributes must be known and required ones present (opaque ops carry anything).

        An op whose calls take a compute config may bring its own; so may one that takes an element type.
        """
        if self.opaque:
            return
        for name in op.attrs:
            stated = (name == COMPUTE and self.compute is not None) or (name == RESULT_DTYPE and self.takes_dtype)
            if name not in self.attrs and not stated:
                raise UnknownNameError(f"attribute of {self.name}", name, self.attrs, node=op.id)
        for name, default in self.attrs.items():
            if default is REQUIRED and name not in op.attrs:
                raise GraphError(f"{self.name} needs attribute '{name}'", node=op.id)

    def attr(self, op: Op, name: str) -> Attr:
        """The op's attribute, or the row's default."""
        if name in op.attrs:
            return op.attrs[name]
        default = self.attrs.get(name, REQUIRED)
        if default is REQUIRED:
            raise GraphError(f"{self.name} needs attribute '{name}'", node=op.id)
        return default  # type: ignore[return-value]

    def full_attrs(self, op: Op) -> dict[str, Attr]:
        """Attributes with defaults filled in."""
        return self.with_defaults(op.attrs)

    @cached_property
    def _defaults(self) -> dict[str, Any]:
        return {k: v for k, v in self.attrs.items() if v is not REQUIRED}

    def with_defaults(self, attrs: Mapping[str, Attr] | Iterable[tuple[str, Attr]]) -> dict[str, Any]:
        """These attributes, and the row's defaults of others."""
        return {**self._defaults, **dict(attrs)}

    def infer_shapes(self, op: Op, inputs: tuple[Shape, ...]) -> tuple[Shape, ...]:
        """Output shapes by the row's rule; ShapeError or LimitError names the op and the input shapes."""
        try:
            shapes = self.shapes(self.full_attrs(op), inputs)
            for shape in shapes:
                check_shape(op.id, shape)
            return shapes
        except (IndexError, TypeError, ValueError, KeyError, ArithmeticError) as error:
            shown = ", ".join(str(list(s)) for s in inputs)
            fault = plugin_failure(error)
            raise fault or ShapeError(f"{self.name} does not fit inputs {shown}: {error}", node=op.id) from error
        except (ShapeError, LimitError) as error:
            shown = ", ".join(str(list(s)) for s in inputs)
            raise type(error)(f"{self.name} of {shown}: {error.message}", node=op.id, limit=error.limit) from None

    def infer_dtypes(self, op: Op, inputs: tuple[DType, ...], count: int) -> tuple[DType, ...]:
        """Element types of `count` results of an op."""
        if self.takes_dtype and op.attrs.get(RESULT_DTYPE) is not None:
            return (DType(str(op.attrs[RESULT_DTYPE])),) * count
        return self.result_dtypes(self.attr(op, RESULT_DTYPE) if self.dtype is DTypeRule.ATTR else None, inputs, count)

    def result_dtypes(self, named: Attr, inputs: tuple[DType, ...], count: int) -> tuple[DType, ...]:
        """Element types of `count` results, `named` being attribute `dtype`."""
        if self.dtype is DTypeRule.U32:
            return (DType.U32,) * count
        if self.dtype is DTypeRule.FIRST_INDEX:
            return (inputs[0], DType.U32 if inputs[0] in (DType.F32, DType.U16) else DType.U16)[:count]
        if self.dtype is DTypeRule.ATTR:
            return (DType(str(named)),) * count
        if self.dtype is DTypeRule.UNPACKED:
            return (DType.BF16 if inputs[0].is_block_float else inputs[0],) * count
        second = self.dtype is DTypeRule.SECOND and len(inputs) > 1
        return (inputs[1 if second else 0],) * count
