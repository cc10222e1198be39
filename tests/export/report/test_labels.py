"""Labels keep what tells names apart."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from optimizer.export.report.labels import labels
from tests.samples import examples


def test_what_is_the_same_in_all_names_is_left_out() -> None:
    names = [
        "/m/encoder/stages.0/layers.0/layer/layer.0/convolution/Conv",
        "/m/encoder/stages.0/layers.0/layer/layer.1/convolution/Conv",
        "/m/encoder/stages.1/layers.0/layer/layer.0/convolution/Conv",
        "/m/classifier/Gemm",
    ]
    assert labels(names) == {
        names[0]: "encoder/stages.0/layer.0",
        names[1]: "encoder/stages.0/layer.1",
        names[2]: "encoder/stages.1",
        names[3]: "classifier",
    }


def test_names_without_folders_stay() -> None:
    assert labels(["node_linear_3", "node_add_1"]) == {"node_linear_3": "node_linear_3", "node_add_1": "node_add_1"}
    assert labels(["/only/one/Conv"]) == {"/only/one/Conv": "Conv"}


def test_a_name_that_another_one_goes_on_from_keeps_its_place() -> None:
    assert labels(["/a/b", "/a/b/c"]) == {"/a/b": "b", "/a/b/c": "c"}


@given(st.lists(st.text("ab/", max_size=8), unique=True))
@settings(max_examples=examples(200))
def test_different_names_have_different_labels(names: list[str]) -> None:
    found = labels(names)
    assert list(found) == names
    assert len(set(found.values())) == len(names)
