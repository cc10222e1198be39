"""The text of a graph is that graph: printed and parsed, with any names."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.errors import FormatError, LimitError
from optimizer.importers import load
from optimizer.ir.dtype import DType
from optimizer.ir.graph import ForeignTensor, Graph, Op, Value, ValueKind
from optimizer.ir.text import graph_text, parse_graph
from tests.samples import examples

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures"
SMALL = sorted(path for path in (FIXTURES / "graphs").glob("*.json") if path.stem != "huge")
MODELS = [FIXTURES / "onnx" / f"{name}.onnx" for name in ("mobilenetv2_legacy17", "dlrm_like_dynamo20")]
TEXT = """graph "two" {
  %x = input : bf16[1,64]
  %"a b" = constant [0.5, 2] : f32[2]
  %h, %g = prepared ttnn.split(%"a b") {dim: -1, sizes: [1, 1]} : f32[1], f32[1] op "s0" name "/m/Split" from ["s", "t"]
  %y = ttnn.add(%x, %h) : bf16[1,64] op "add"
  return %y, %y
}
"""


def same(found: Graph, wanted: Graph) -> None:
    assert list(found.ops()) == list(wanted.ops())
    assert (found.name, found.inputs, found.outputs) == (wanted.name, wanted.inputs, wanted.outputs)
    assert found.values == wanted.values


@pytest.mark.parametrize("path", [*SMALL, *MODELS], ids=lambda path: path.stem)
def test_an_imported_graph_is_read_back_from_its_text(path: Path) -> None:
    graph = load(str(path)).graph

    same(parse_graph(graph_text(graph)), graph)


def test_a_text_is_printed_as_it_was_read() -> None:
    assert graph_text(parse_graph(TEXT)) == TEXT


def test_layouts_are_printed_behind_types_and_not_read() -> None:
    graph = parse_graph(TEXT)
    placed = graph_text(graph, {"x": "l1 height_sharded 2x1 [32, 64] tile", "h": "dram interleaved row_major"})

    assert "%x = input : bf16[1,64] @ l1 height_sharded 2x1 [32, 64] tile\n" in placed
    assert ": f32[1] @ dram interleaved row_major, f32[1] op" in placed
    same(parse_graph(placed), graph)


names = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12)
attrs = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**40), 2**40) | st.floats(allow_nan=False) | names,
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=4,
)


@settings(max_examples=examples(60))
@given(st.lists(names, min_size=3, max_size=3, unique=True), names, names, st.dictionaries(names, attrs, max_size=3))
def test_any_names_and_attributes_survive(ids: list[str], op_id: str, called: str, given: dict[str, object]) -> None:
    x, w, y = ids
    graph = Graph(called, [x], [y])
    graph.add_value(Value(x, (1, 3, 1), DType.BF16, ValueKind.INPUT, None, ForeignTensor(called, (3, 1), (1, 0))))
    graph.add_value(Value(w, (), DType.I32, ValueKind.PARAMETER, None, ForeignTensor.whole(w, ())))
    graph.add_value(Value(y, (2,), DType.BFP8_B, ValueKind.ACTIVATION))
    graph.add_op(Op(op_id, "ttnn.add", (x, w), (y,), given, called, (called, y)))  # type: ignore[arg-type]

    same(parse_graph(graph_text(graph)), graph)


@pytest.mark.parametrize(
    ("text", "place", "message"),
    [
        ("", "line 1", "more lines is due"),
        ('graph "g" {\n  %x = input : bf17[1]\n', "line 2", "a type such as bf16"),
        ('graph "g" {\n  return %x\n}', "line 2", "a value that a line above gives, not '%x'"),
        ('graph "g" {\n  %y = ttnn.relu(%x) : bf16[1]\n}', "line 2", "not '%x'"),
        ('graph "g" {\n  %x = input : bf16[1] and more\n', "line 2", "the end of the line is due at 'and more'"),
        ('graph "g" {\n  %x = constant ' + "[" * 200_000, "line 2", "a value of fewer levels"),
        ('graph "g" {\n  %x = input : bf16[1]\n  %y = ttnn.relu(%x) {a: nan} : bf16[1]\n', "line 3", "as JSON writes"),
    ],
)
def test_what_is_wrong_is_said_with_its_line(text: str, place: str, message: str) -> None:
    with pytest.raises(FormatError, match=message) as raised:
        parse_graph(text)
    assert raised.value.node == place


def test_sizes_have_the_limits_of_every_reader() -> None:
    with pytest.raises(LimitError, match="the limit is 8"):
        parse_graph('graph "g" {\n  %x = input : bf16[1,1,1,1,1,1,1,1,1]\n  return %x\n}')
