"""Shape inference and constant folding by the ONNX libraries, held to the import's budget.

The libraries take any model to be of good will: a value may grow without end, an evaluation may take any time. Each
is therefore entered at the one place where it visits a node, a symbolic number or a constant.
What it takes to evaluate a node on constants is estimated before anybody does it.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Mapping
from math import prod
from typing import Any

import onnx
import onnx.checker
import onnx.shape_inference
import onnx_ir as ir
import onnx_ir.passes.common as common
from onnx_shape_inference import ShapeInferenceContext, ShapeInferenceError, registry
from onnx_shape_inference._constraints import (
    collect_symbol_names,
    propagate_symbolic_constraints,
    record_reshape_numel_equalities,
)
from onnx_shape_inference._engine import _process_graph
from onnxscript.optimizer import FOLDED_FROM_KEY
from onnxscript.optimizer._constant_folding import FoldConstantsPass

from optimizer.errors import GraphError, LimitError, ShapeError, TtoptError
from optimizer.importers import onnx_shape_corrections
from optimizer.importers.model import Budget
from optimizer.importers.onnx_operands import check_operands, node_place
from optimizer.importers.onnx_weights import FOLD_LIMIT

CONTROL_FLOW = frozenset({"If", "Loop", "Scan", "SequenceMap"})
LIBRARY_ERRORS = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    IndexError,
    KeyError,
    NotImplementedError,
    RuntimeError,
    TypeError,
    ValueError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    onnx.shape_inference.InferenceError,
)
"""What the ONNX libraries raise on models that they cannot digest."""
MOST_STEPS = 1 << 22
"""Steps of one evaluation, each some nanoseconds; a node that takes more is left in the graph."""
_SLOW_STEPS = 64
"""Steps of one turn of a loop that the reference evaluator makes in Python."""
_NEVER = frozenset(
    {"ImageDecoder", "RegexFullMatch", "StringConcat", "StringNormalizer", "StringSplit", "TfIdfVectorizer"}
    | {"Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}
)
"""Ops on text or compressed images, whose work no shape bounds, and those that draw lots."""
_SHRINKING = frozenset({"Compress", "NonMaxSuppression", "NonZero", "Unique"})
"""Ops whose result depends on the elements and is bounded by the operands."""
_PRODUCTS = frozenset({"Gemm", "MatMul", "MatMulInteger", "QLinearMatMul"})
_WINDOWS = frozenset(
    {"Conv", "ConvInteger", "ConvTranspose", "DeformConv", "QLinearConv"}
    | {"AveragePool", "LpPool", "MaxPool", "MaxRoiPool", "MaxUnpool", "RoiAlign", "Col2Im"}
    | {"GridSample", "Resize", "Upsample", "LRN"}
)
_LOOPS = frozenset(
    {"GRU", "LSTM", "RNN", "Attention", "CumSum", "DFT", "STFT", "Det", "Einsum", "GatherElements", "GatherND"}
    | {"MelWeightMatrix", "NonMaxSuppression", "ReverseSequence", "Scatter", "ScatterElements", "ScatterND"}
    | {"NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss", "TopK", "BitShift", "EyeLike", "CenterCropPad"}
)


def is_never_evaluated(node: ir.Node) -> bool:
    """Whether a node stays in the graph although its operands are constants."""
    return node.domain not in ("", "ai.onnx") or node.op_type in CONTROL_FLOW or node.op_type in _NEVER


def evaluation_steps(node: ir.Node, size: int | None) -> int | None:
    """Steps of evaluating a node that gives `size` elements (None: not known before); None when they are too many."""
    operands = [v.const_value for v in node.inputs if v is not None and v.const_value is not None]
    shapes = [tuple(int(str(d)) for d in operand.shape) for operand in operands]
    sizes = [prod(shape) for shape in shapes]
    if size is None:
        if node.op_type not in _SHRINKING:
            return None
        size = sum(sizes)
    steps = size + sum(sizes)
    if node.op_type in _PRODUCTS:
        steps += size * max((s[-1] for s in shapes if s), default=1)
    elif node.op_type in _WINDOWS:
        steps = _SLOW_STEPS * (steps + size * _window(node, sizes))
    elif node.op_type == "Einsum":
        steps += _letters(node, shapes)
    elif node.op_type == "NonMaxSuppression":
        steps = _SLOW_STEPS * (steps + sizes[0] ** 2)
    elif node.op_type in _LOOPS:
        steps *= _SLOW_STEPS
        if node.op_type in ("GRU", "LSTM", "RNN", "DFT", "STFT", "Attention"):
            steps += size * max(sizes, default=1)
    return steps if steps <= MOST_STEPS else None


def _window(node: ir.Node, sizes: list[int]) -> int:
    """Elements that one element of the result is made of."""
    kernel = node.attributes.get("kernel_shape")
    if kernel is not None:
        return prod(max(1, abs(int(k))) for k in kernel.as_ints())
    span = node.attributes.get("size")
    if span is not None:
        return max(1, abs(span.as_int()))
    return max(sizes[1:], default=1)


def _letters(node: ir.Node, shapes: list[tuple[int, ...]]) -> int:
    """Products that an Einsum adds up when done at once: one for each choice of all its letters."""
    equation = node.attributes.get("equation")
    terms = equation.as_string().replace(" ", "").partition("->")[0].split(",") if equation is not None else []
    sizes: dict[str, int] = {}
    for term, shape in zip(terms, shapes, strict=False):
        dots = len(shape) - len(term.replace("...", ""))
        letters = list(term.partition("...")[0]) + [f"dot{i}" for i in range(dots)] + list(term.partition("...")[2])
        for letter, dim in zip(letters, shape, strict=False):
            sizes[letter] = max(sizes.get(letter, 1), dim)
    return prod(sizes.values())


ROUNDS = 5
"""Inferences and foldings in turn; each resolves shapes that the one before made constant."""
LONGEST_EXPRESSION = 256
"""Characters of a size that depends on run-time values; longer ones become a new unknown."""
HIGHEST_RANK = 64
"""Dims of a value inside of shape arithmetic, NumPy's limit; those of a tensor on the device are far fewer."""

_QUIET = logging.NullHandler()
onnx_shape_corrections.install()


class BoundedContext(ShapeInferenceContext):  # type: ignore[misc]  # the library has no stubs
    """The library's inference context: every number it makes is counted, long values and expressions are dropped."""

    budget: Budget

    @classmethod
    def over(cls, opsets: Mapping[str, int], budget: Budget) -> BoundedContext:
        context = cls(opsets)
        context.budget = budget
        return context

    def create_child(self, *args: Any, **kwargs: Any) -> BoundedContext:
        child = super().create_child(*args, **kwargs)
        child.__class__ = type(self)
        child.budget = self.budget
        bounded: BoundedContext = child
        return bounded

    def get_opset_version(self, domain: str) -> int:
        self.budget.work("shape inference", 1)  # asked once for each node
        return int(super().get_opset_version(domain))

    def new_symbolic_dim(self) -> ir.SymbolicDim:
        self.budget.work("shape inference", 8)
        dim: ir.SymbolicDim = super().new_symbolic_dim()
        return dim

    def add_symbolic_equality(self, a: Any, b: Any) -> None:
        self.budget.work("shape inference", 1 + len(self.symbolic_equalities) // 64)
        super().add_symbolic_equality(a, b)

    def get_symbolic_value(self, value: ir.Value) -> list[int | ir.SymbolicDim] | None:
        found: list[int | ir.SymbolicDim] | None = super().get_symbolic_value(value)
        self.budget.work(f"the elements of '{value.name}'", len(found or ()) // 4)
        return found

    def set_symbolic_value(self, value: ir.Value, data: list[int | ir.SymbolicDim]) -> None:
        self.budget.work(f"the elements of '{value.name}'", 1 + len(data) // 16)
        if len(data) <= FOLD_LIMIT:  # longer ones are data, no shape
            super().set_symbolic_value(value, [self._short(d) for d in data])

    def set_shape(self, value: ir.Value, shape: ir.Shape) -> bool:
        if len(shape) > HIGHEST_RANK:
            raise LimitError(
                f"value '{value.name}' has {len(shape)} dims, the limit is {HIGHEST_RANK}",
                node=value.name,
                limit=HIGHEST_RANK,
            )
        if any(self._is_long(d) for d in shape):
            shape = ir.Shape([self._short(d) for d in shape])
        return bool(super().set_shape(value, shape))

    def _short(self, dim: int | ir.SymbolicDim) -> int | ir.SymbolicDim:
        return self.new_symbolic_dim() if self._is_long(dim) else dim

    @staticmethod
    def _is_long(dim: int | ir.SymbolicDim) -> bool:
        return isinstance(dim, ir.SymbolicDim) and len(dim.value or "") > LONGEST_EXPRESSION


def infer_shapes(model: ir.Model, budget: Budget) -> None:
    """`onnx_shape_inference.infer_symbolic_shapes` with a bounded context, which its own entrance does not take."""
    context = BoundedContext.over(model.opset_imports, budget)
    context.reserve_symbol_names(collect_symbol_names(model.graph))
    _process_graph(context, model.graph, model_functions=model.functions, inference_cache={}, op_function_cache={})
    record_reshape_numel_equalities(context, model.graph)
    propagate_symbolic_constraints(context, model.graph)


class BoundedFolding(FoldConstantsPass):
    """The library's constant folding: every node visited and every constant made is counted."""

    def __init__(self, budget: Budget, weights: frozenset[str], with_onnx: bool) -> None:
        super().__init__(
            shape_inference=with_onnx,
            input_size_limit=FOLD_LIMIT,
            output_size_limit=FOLD_LIMIT,
            should_fold=self._should_fold,
        )
        self._budget = budget
        self._weights = weights

    def process_node(self, node: ir.Node, is_function: bool) -> Any:
        self._budget.work(node_place(node), 1 + len(node.inputs) + len(node.outputs))
        check_operands(node, self._opset_imports, self._weights)
        if node.op_type == "SplitToSequence":
            self._budget.work(node_place(node), 8 * _pieces(node))
        replacement = super().process_node(node, is_function)
        if replacement is not None:
            self._budget.work(node_place(node), sum(1 + len(n.inputs) + len(n.outputs) for n in replacement.new_nodes))
        return replacement

    def replace_node(self, node: ir.Node, replacement: Any, root: ir.Graph | ir.Function) -> None:
        for value in node.inputs:
            if value is not None:
                # the library keeps the names of all constants that went into a value, ever more of them
                value.meta.pop(FOLDED_FROM_KEY, None)
        super().replace_node(node, replacement, root)

    def _should_fold(self, node: ir.Node) -> bool | None:
        """Whether a node whose operands are all constants is evaluated (None: as the library sees fit); asked first."""
        if is_never_evaluated(node):
            return False
        self._infer(node)
        size = result_size(node)
        given = sum(v.const_value.size for v in node.inputs if v is not None and v.const_value is not None)
        if size is not None and size > FOLD_LIMIT and size > given:
            return False
        steps = evaluation_steps(node, size)
        if steps is None:
            return False
        self._budget.elements(node_place(node), size or 0)
        self._budget.work(node_place(node), 1 + steps // 128)
        return True if node.op_type in ("ConstantOfShape", "Range", "Shape") else None

    def _infer(self, node: ir.Node) -> None:
        """A shape that the inference before this round could not know: operands have become constants since."""
        if all(v.shape is not None and v.shape.is_static() for v in node.outputs):
            return
        context = BoundedContext.over(self._opset_imports, self._budget)
        infer = registry.get(node.domain, node.op_type, version=context.get_opset_version(node.domain))
        if infer is not None:
            infer(context, node)


def result_size(node: ir.Node) -> int | None:
    """Elements of all results of a node; None when a shape is not known."""
    size = 0
    for value in node.outputs:
        if value.shape is None or not value.shape.is_static():
            return None
        size += prod(int(str(d)) for d in value.shape)
    return size


def _pieces(node: ir.Node) -> int:
    """How many tensors a SplitToSequence gives, as far as that is known."""
    data, split = node.inputs[0], node.inputs[1] if len(node.inputs) > 1 else None
    if split is None:
        return 0
    if split.shape is not None and len(split.shape) == 1:
        return split.shape[0] if isinstance(split.shape[0], int) else 0
    axis = node.attributes.get("axis")
    at = axis.as_int() if axis is not None else 0
    if data is None or data.shape is None or not -len(data.shape) <= at < len(data.shape):
        return 0
    dim, step = data.shape[at], split.const_value
    if not isinstance(dim, int) or step is None or step.size != 1:
        return 0 if step is None else int(step.size)
    return -(-dim // max(1, int(step.numpy().reshape(-1)[0])))


def fold_model(model: ir.Model, budget: Budget, weights: frozenset[str]) -> None:
    """Infer shapes and fold constants in turn, until nothing changes any more; `weights`: inputs that are weights."""
    for library in ("onnx_ir", "onnx_shape_inference", "onnxscript"):
        # what they cannot infer is reported by the caller; without any handler, logging prints it on stderr
        logging.getLogger(library).addHandler(_QUIET)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            common.LiftConstantsToInitializersPass(lift_all_constants=True, size_limit=0)(model)
            # onnx's own inference, node by node, is slower but knows the ops of old opsets
            for with_onnx in (False, True):
                _rounds(model, budget, weights, with_onnx)
                if not unresolved_nodes(model):
                    break
            for node in model.graph:
                check_operands(node, model.opset_imports, weights)
    except TtoptError:
        raise
    except Exception as error:
        ours = _cause_of_ours(error)
        if ours is not None:  # the libraries wrap what is raised inside of them
            raise ours from None
        if isinstance(error, ShapeInferenceError):
            raise ShapeError(f"shapes do not fit: {first_line(error)}", node=error.node_name) from error
        if isinstance(error, LIBRARY_ERRORS):
            raise GraphError(f"the model is inconsistent: {first_line(error)}") from error
        raise


def _rounds(model: ir.Model, budget: Budget, weights: frozenset[str], with_onnx: bool) -> None:
    for _ in range(ROUNDS):
        infer_shapes(model, budget)
        result = BoundedFolding(budget, weights, with_onnx)(model)
        _drop_identities(model)
        common.RemoveUnusedNodesPass()(model)
        if not result.modified:
            return
    infer_shapes(model, budget)


def _cause_of_ours(error: BaseException) -> TtoptError | None:
    cause: BaseException | None = error
    while cause is not None and not isinstance(cause, TtoptError):
        cause = cause.__cause__
    return cause


def first_line(error: BaseException) -> str:
    """A library's error in one line, with those that caused it."""
    text = str(error).strip().splitlines()
    cause = error.__cause__
    shown = text[0] if text else type(error).__name__
    return f"{shown} ({first_line(cause)})" if cause is not None else shown


def _drop_identities(model: ir.Model) -> None:
    # onnx-ir 1.1.0's own pass raises on some models with If branches
    for node in list(model.graph):
        source = node.inputs[0] if node.op_type == "Identity" else None
        if source is not None and not node.outputs[0].is_graph_output():
            node.outputs[0].replace_all_uses_with(source)


def unresolved_nodes(model: ir.Model) -> list[ir.Node]:
    """Nodes with an output, used by anything, whose shape or type is not known, in the order of the graph."""
    found: list[ir.Node] = []
    for node in model.graph:
        for value in node.outputs:
            if not value.name or not (value.uses() or value.is_graph_output()):
                continue
            static = value.shape is not None and all(isinstance(d, int) for d in value.shape)
            if not static or value.dtype is None:
                found.append(node)
                break
    return found
