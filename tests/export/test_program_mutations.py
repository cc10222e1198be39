"""Wrong programs are noticed: each mutation of a right one is refused, computes something else, or leaks."""

from __future__ import annotations

import ast
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest
from program_witness import Case, case, execute
from ttnn_standin import Refused, UseAfterFree
from witnessed_models import MODELS

from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.options import Options
from optimizer.pipeline import optimize_file

Edit = Callable[[ast.Module], None]


@cache
def program(model: str) -> tuple[str, Case]:
    """The program of a small model, all in DRAM, and its data."""
    proto = MODELS[model]()
    result = optimize_file(proto.SerializeToString(), Options(policy="dram", board="n150", rewrites=False), name=model)
    return render(ttnn_program(result)), case(proto)


# -- ways to edit ------------------------------------------------------------------------------------------
def calls(tree: ast.Module, function: str) -> list[ast.Call]:
    """The calls of a function of ttnn's, in the order of the text."""
    found = [n for n in ast.walk(tree) if isinstance(n, ast.Call) and ast.unparse(n.func) == f"ttnn.{function}"]
    assert found, f"no call of ttnn.{function}"
    return sorted(found, key=lambda call: call.lineno)


def replaced(function: str, keyword: str, text: str) -> Edit:
    """Another value of a keyword in every call of a function."""

    def edit(tree: ast.Module) -> None:
        given = [k for call in calls(tree, function) for k in call.keywords if k.arg == keyword]
        assert given, keyword
        for argument in given:
            assert ast.unparse(argument.value) != text
            argument.value = ast.parse(text, mode="eval").body

    return edit


def positional(function: str, at: int, text: str) -> Edit:
    """Another positional argument of a function's first call."""

    def edit(tree: ast.Module) -> None:
        argument = calls(tree, function)[0].args[at]
        assert ast.unparse(argument) != text
        calls(tree, function)[0].args[at] = ast.parse(text, mode="eval").body

    return edit


def swapped(function: str, first: int, second: int) -> Edit:
    """Two positional arguments of a function's first call change places."""

    def edit(tree: ast.Module) -> None:
        arguments = calls(tree, function)[0].args
        arguments[first], arguments[second] = arguments[second], arguments[first]

    return edit


def added(function: str, keyword: str, text: str) -> Edit:
    """One more keyword for a function's first call."""

    def edit(tree: ast.Module) -> None:
        calls(tree, function)[0].keywords.append(ast.keyword(keyword, ast.parse(text, mode="eval").body))

    return edit


def both(*edits: Edit) -> Edit:
    def edit(tree: ast.Module) -> None:
        for one in edits:
            one(tree)

    return edit


def concat_turned(tree: ast.Module) -> None:
    parts = calls(tree, "concat")[-1].args[0]
    assert isinstance(parts, ast.List)
    parts.elts.reverse()


def function_body(tree: ast.Module, name: str) -> list[ast.stmt]:
    return next(node for node in tree.body if isinstance(node, ast.FunctionDef) and node.name == name).body


def is_free(statement: ast.stmt) -> bool:
    return isinstance(statement, ast.Expr) and ast.unparse(statement).startswith("ttnn.deallocate(")


def free_left_out(tree: ast.Module) -> None:
    body = function_body(tree, "run")
    body.remove(next(s for s in body if is_free(s)))


def free_too_early(tree: ast.Module) -> None:
    """The last deallocation moves in front of the statement whose result it frees last, its reader."""
    body = function_body(tree, "run")
    at = max(k for k, s in enumerate(body) if is_free(s))
    statement = body.pop(at)
    reader = max(k for k in range(at) if not is_free(body[k]))
    body.insert(reader, statement)


def input_freed(tree: ast.Module) -> None:
    body = function_body(tree, "run")
    body.insert(-1, ast.parse("ttnn.deallocate(x)").body[0])


def weights_exchanged(tree: ast.Module) -> None:
    """Every weight of one shape gets the next one's name in `prepare_parameters`: a wrong mapping."""
    names = {"w2": "w0", "w0": "w2"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Subscript) and ast.unparse(node.value) == "tensors":
            assert isinstance(node.slice, ast.Constant)
            node.slice.value = names.get(str(node.slice.value), node.slice.value)


def bias_left_out(tree: ast.Module) -> None:
    for call in calls(tree, "linear"):
        call.keywords = [k for k in call.keywords if k.arg != "bias"]


def overwritten(tree: ast.Module) -> None:
    """A result is written over a value that is read again later."""
    body = function_body(tree, "run")
    at = next(k for k, s in enumerate(body) if ast.unparse(s).startswith("Add_20 = "))
    over = "ttnn.relu(Add_20, memory_config=ttnn.DRAM_MEMORY_CONFIG, output_tensor=Add_20)"
    body.insert(at + 1, ast.parse(over).body[0])


def input_overwritten(tree: ast.Module) -> None:
    body = function_body(tree, "run")
    body.insert(-1, ast.parse("ttnn.relu(x, output_tensor=x)").body[0])


SIGMOID = "ttnn.UnaryWithParam(ttnn.UnaryOpType.SIGMOID)"
UNEVEN = "(0, 2, 1, 1)"
SHARDS = (
    "ttnn.MemoryConfig(ttnn.TensorMemoryLayout.HEIGHT_SHARDED, ttnn.BufferType.L1, ttnn.ShardSpec(ttnn.CoreRangeSet("
    "[ttnn.CoreRange(ttnn.CoreCoord(0, 0), ttnn.CoreCoord({}, 0))]), [{}, 128], ttnn.ShardOrientation.ROW_MAJOR))"
)

VALUES: dict[str, tuple[str, Edit]] = {
    "operands of subtract swapped": ("encoder", swapped("subtract", 0, 1)),
    "permute of equal sizes in another order": ("convnet", positional("permute", 1, "(0, 3, 2, 1)")),
    "epsilon of the layer norm": ("encoder", replaced("layer_norm", "epsilon", "0.5")),
    "bias of linear left out": ("encoder", bias_left_out),
    "bias of a convolution left out": (
        "convnet",
        both(replaced("conv2d", "bias_tensor", "None"), replaced("prepare_conv_weights", "has_bias", "False")),
    ),
    "scale of the attention": ("encoder", replaced("transformer.scaled_dot_product_attention", "scale", "0.125")),
    "causal attention": ("encoder", replaced("transformer.scaled_dot_product_attention", "is_causal", "True")),
    "keys for values": ("encoder", swapped("transformer.scaled_dot_product_attention", 1, 2)),
    "slice of equal size elsewhere": (
        "convnet",
        both(positional("slice", 1, "[0, 0, 0, 8]"), positional("slice", 2, "[1, 1, 256, 40]")),
    ),
    "activation of a product": ("encoder", replaced("linear", "activation", "'silu'")),
    "activation of a convolution": ("convnet", replaced("Conv2dConfig", "activation", SIGMOID)),
    "padding of a convolution to the other side": (
        "convnet",
        both(*(replaced(f, "padding", UNEVEN) for f in ("conv2d", "prepare_conv_weights", "prepare_conv_bias"))),
    ),
    "parts of concat in another order": ("convnet", concat_turned),
    "weights exchanged": ("convnet", weights_exchanged),
    "gate multiplied with itself": ("encoder", positional("multiply", 0, "MatMul_23")),
    "maximum of smaller windows": ("convnet", replaced("max_pool2d", "kernel_size", "[1, 2]")),
    "result over an operand that is read again": ("encoder", overwritten),
}
"""Mutations that TTNN would accept: only the values tell."""

REFUSED: dict[str, tuple[str, Edit, str]] = {
    "freed before its reader": ("encoder", free_too_early, "reads what"),
    "input freed": ("encoder", input_freed, "run freed or changed x"),
    "input overwritten": ("encoder", input_overwritten, "run freed or changed x"),
    "unknown keyword": ("encoder", added("subtract", "alpha", "1.0"), "alpha unknown"),
    "keyword for a positional parameter": ("encoder", added("permute", "dims", "(0, 1, 2)"), "given twice"),
    "number for a memory config": ("encoder", replaced("subtract", "memory_config", "0"), "no MemoryConfig"),
    "name of an activation that is none": ("encoder", replaced("linear", "activation", "'rely'"), "no activation"),
    "enumeration without such a member": (
        "convnet",
        replaced("Conv2dConfig", "activation", "ttnn.UnaryWithParam(ttnn.UnaryOpType.RELY)"),
        "no member RELY",
    ),
    "dims of another rank": ("encoder", positional("permute", 1, "(0, 2, 1, 3)"), "dim 3"),
    "slice beyond the end": ("convnet", positional("slice", 2, "[1, 1, 256, 65]"), r"ttnn\.slice"),
    "reshape to another size": ("convnet", positional("reshape", 1, "(1, 1, 255, 32)"), r"ttnn\.reshape"),
    "fewer shards than rows": (
        "encoder",
        replaced("subtract", "memory_config", SHARDS.format(0, 32)),
        "more than 1 cores",
    ),
    "shards that are no whole tiles": (
        "encoder",
        replaced("subtract", "memory_config", SHARDS.format(3, 16)),
        "whole tiles",
    ),
    "core beyond the grid": (
        "encoder",
        replaced("subtract", "memory_config", SHARDS.format(8, 32)),
        "not on a grid",
    ),
    "weights prepared for another stride": (
        "convnet",
        replaced("prepare_conv_weights", "stride", "(2, 2)"),
        "prepared for another stride",
    ),
    "pool of row-major input given to a matmul": ("convnet", positional("linear", 0, "x"), r"ttnn\.linear"),
    "padding of the pool beyond the image": ("convnet", replaced("max_pool2d", "input_h", "17"), "are not 1 images"),
}
"""Mutations that TTNN refuses, or that read freed memory -> what the stand-in says."""


def mutated(model: str, edit: Edit) -> tuple[str, Case]:
    text, given = program(model)
    tree = ast.parse(text)
    edit(tree)
    changed = ast.unparse(ast.fix_missing_locations(tree))
    assert changed != ast.unparse(ast.parse(text))
    return changed, given


@pytest.mark.parametrize("model", MODELS)
def test_programs_are_right_before_they_are_mutated(model: str) -> None:
    text, given = program(model)
    found = execute(text, given)
    assert found.good, str(found)
    assert found.outputs[0].error < 1e-5


@pytest.mark.parametrize("name", VALUES)
def test_wrong_values_are_noticed(name: str) -> None:
    found = execute(*mutated(*VALUES[name]))
    assert not found.outputs[0].good, str(found)


@pytest.mark.parametrize("name", REFUSED)
def test_programs_that_cannot_be_meant_are_refused(name: str) -> None:
    model, edit, reason = REFUSED[name]
    text, given = mutated(model, edit)
    with pytest.raises(Refused, match=reason):
        execute(text, given)


def test_a_deallocation_left_out_is_a_leak() -> None:
    found = execute(*mutated("encoder", free_left_out))
    assert found.outputs[0].good
    assert [buffer.made_by for buffer in found.run.leaks] == ["layer_norm"]
    assert not found.good


def test_early_deallocation_is_a_use_after_free() -> None:
    text, given = mutated("encoder", free_too_early)
    with pytest.raises(UseAfterFree):
        execute(text, given)


def test_what_a_mutation_says_depends_on_the_program_alone() -> None:
    """The same mutation twice gives the same figures."""
    model, edit = VALUES["weights exchanged"]
    figures: list[Any] = [execute(*mutated(model, edit)).outputs for _ in range(2)]
    assert figures[0] == figures[1]
