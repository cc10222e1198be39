"""Error messages name the place once and the alternatives; errors survive a process boundary."""

from __future__ import annotations

import pickle

import pytest
from gfx942.llvm import DisassemblyError

from optimizer.errors import GraphError, InputError, LimitError, OptionError, TtoptError, UnknownNameError, near
from optimizer.kernels.amdgpu.errors import AllocationError
from optimizer.kernels.amdgpu.witness.errors import ExecutionError, TextError


def test_the_node_is_named_once() -> None:
    assert str(GraphError("value defined twice", node="x")) == "x: value defined twice"
    assert str(GraphError("value 'x' is defined twice", node="x")) == "value 'x' is defined twice"
    assert str(LimitError("exceeds the limit", node="x")) == "x: exceeds the limit"


def test_unknown_names_list_near_matches_first() -> None:
    error = UnknownNameError("board", "n15", ["p150", "n300", "n150", "p100"])
    assert str(error) == "unknown board 'n15', did you mean 'n150'? (one of: n150, p150, n300, p100)"
    assert error.exit_code == 2


def test_long_lists_are_cut() -> None:
    error = UnknownNameError("op", "zzz", [f"op{i:03d}" for i in range(50)])
    assert str(error).endswith("... 38 more)")


ERRORS = [
    OptionError("bad", node="n", limit=3, alternatives=("a",)),
    InputError("x"),
    AllocationError("no room", node="kv0", limit=4, details={"size": 2}),
    TextError("not assembly", 7, ("s_nop",)),
    ExecutionError("race", "two waves write", 3, "ds_write_b32 v0, v1", "wave 1"),
    DisassemblyError("differs", 2),
]


@pytest.mark.parametrize("error", ERRORS, ids=lambda e: type(e).__name__)
def test_errors_can_be_pickled(error: TtoptError) -> None:
    twin = pickle.loads(pickle.dumps(error))
    assert type(twin) is type(error)
    assert (twin.message, twin.node, twin.limit, twin.alternatives) == (
        error.message, error.node, error.limit, error.alternatives,
    )  # fmt: skip
    assert str(twin) == str(error)
    assert vars(twin) == vars(error)


def test_dashes_make_no_two_flags_alike() -> None:
    flags = ["--emit", "--policy", "-o", "--output"]
    assert near("--quiet", flags) == ""
    assert near("--polcy", flags) == ", did you mean '--policy'?"
    assert near("--put", flags) == ", did you mean '--output'?"


def test_a_word_in_a_name_comes_near() -> None:
    names = ["layer1_conv", "layer2_conv", "layer3_Conv", "layer4_conv", "head"]
    message = str(UnknownNameError("op", "conv", names))
    assert "unknown op 'conv', did you mean 'layer1_conv' or 'layer2_conv' or 'layer3_Conv'?" in message
    assert "did you mean" not in str(UnknownNameError("op", "e", names))
