"""Broken modules are refused: as text, as modules, or as the plan of their result."""

from __future__ import annotations

import random
import re
from functools import cache
from pathlib import Path

import pytest

from optimizer.export.mlir.module import Module
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.export.mlir.checking import problems
from tests.export.mlir.plan import differences
from tests.export.mlir.syntax import TOKEN, Malformed, read
from tests.plans import planned_file

GRAPHS = Path(__file__).resolve().parents[3] / "fixtures" / "graphs"
TOKENS_TRIED = 400


@cache
def planned(name: str) -> OptimizedGraph:
    return planned_file(GRAPHS / f"{name}.json", Options.from_mapping({"board": "n150", "policy": "dfsharding"}))


@cache
def module(name: str) -> str:
    return Module(planned(name)).text()


def found(name: str, text: str) -> str | None:
    """What is wrong with a module of a result; None: nothing."""
    result = planned(name)
    try:
        broken = read(text)
    except Malformed as problem:
        return str(problem)
    wrong = [*problems(broken, result.device.grid_yx), *differences(broken, result)]
    return wrong[0] if wrong else None


MUTATIONS: dict[str, tuple[str, str, str]] = {
    "a shard without cores": (r", core_ranges = <\[[^\]]*\]>>", ">", "shards need them"),
    "a core outside": (r"\(0, 0\), \((\d), (\d)\)>\]>>", r"(0, 0), (9, \2)>]>>", "cores"),
    "cores that overlap": (r"<\[(#ttnn.core_range<[^>]*>)\]>", r"<[\1, \1]>", "overlap"),
    "cores for interleaved memory": (
        r"#l1>, <\w+_sharded>, core",
        "#l1>, <interleaved>, core",
        "core ranges are for shards",
    ),
    "a tensor on the host with a memory layout": (r"#dram>, <interleaved>", "#system_memory>, <interleaved>", ""),
    "a grid in DRAM": (r"<1x1>, memref<(\d+x\d+x!ttcore[^>]*>), #dram", r"<2x2>, memref<\1, #dram", "the grid is 1x1"),
    "a wrong map": (r"d0 \* (\d+)", r"d0 * 7\1", "a map of"),
    "too small a shard": (r"memref<(\d+)x(\d+)x(!ttcore.tile<32x32, bf16>), #l1", r"memref<0x\2x\3, #l1", "hold"),
    "too large a shard": (r"memref<(\d+)x(\d+)x(!ttcore.tile<32x32, bf16>), #l1", r"memref<7\1x\2x\3, #l1", "lies in"),
    "other elements": (r"tile<32x32, bf16>", "tile<32x32, f32>", "elements"),
    "tiles of another size": (r"tile<32x32", "tile<16x32", "tiles are 32x32"),
    "a misspelt space": (r"#ttnn.buffer_type<l1>", "#ttnn.buffer_type<sram>", "'sram'"),
    "a misspelt attribute": (r"#ttnn.conv2d_config<", "#ttnn.conv_config<", "ttnn.conv_config"),
    "a misspelt field": (r"act_block_h_override", "act_block_h", "act_block_h"),
    "a misspelt property": (r"in_channels = ", "in_chanels = ", "in_channels"),
    "a property that is gone": (r'"ttnn.to_memory_config"\(%\d+\)', r'\g<0> <{memory_config = "l1"}>', "memory_config"),
    "an operand that is not there": (r'"ttnn.conv2d"\(%\w+', '"ttnn.conv2d"(%99', "before it is defined"),
    "an operand of another type": (r'"ttnn.conv2d"\(%\w+, %\w+', '"ttnn.conv2d"(%arg0, %arg0', "another type"),
    "a value defined twice": (r"%(\d+) = \"ttnn.conv2d\"", '%0 = "ttnn.conv2d"', "defined twice"),
    "too few types": (r": \(tensor<[^>]*>, ", ": (", "number of values"),
    "an alias that is not there": (r"#ttnn_layout1>", "#ttnn_layout999>", "ttnn_layout999"),
    "an alias defined twice": (r"(#l1 = [^\n]*\n)", r"\1\1", "defined twice"),
    "a location that is not there": (r"loc\(#loc0\)", "loc(#loc99)", "#loc99"),
    "another name": (r'#loc0 = loc\("[^"]*"\)', '#loc0 = loc("other")', "not there"),
    "a function that is not there": (r"callee = @main_const_eval_0", "callee = @main_const_eval_9", "not there"),
    "a tensor deallocated twice": (r'(\n +"ttnn.deallocate"[^\n]*)', r"\1\1", "deallocated twice"),
    "a tensor that stays": (r'\n +"ttnn.deallocate"[^\n]*', "", "never deallocated"),
    "a tensor deallocated too early": (
        r'(\n +%\d+ = "ttnn.relu"\((%\d+)\)[^\n]*: \((tensor<[^>]*>)\))',
        r'\n    "ttnn.deallocate"(\2) <{force = false}> : (\3) -> () loc(unknown)\1',
        "after its buffer was deallocated",
    ),
    "a weight deallocated": (
        r'(\n +%\d+ = "ttnn.conv2d"\(%\w+, (%\d+)[^\n]*: \(tensor<[^>]*>, (tensor<[^>]*>)[^\n]*)',
        r'\1\n    "ttnn.deallocate"(\2) <{force = false}> : (\3) -> () loc(unknown)',
        "not the run's",
    ),
    "no return": (r'\n +"func.return"[^\n]*', "", "returns once"),
    "text behind the end": (r"\Z", "more", "a hash expected"),
    "a string that does not end": (r'loc\("[^"\n]*"\)\n\Z', 'loc("a\n', "no token"),
}
"""Title -> what is replaced once, by what, and what is said of it."""


@pytest.mark.parametrize("title", MUTATIONS)
def test_a_broken_module_is_refused(title: str) -> None:
    pattern, replacement, said = MUTATIONS[title]
    text = module("conv2d_relu")
    broken = re.sub(pattern, replacement, text, count=1)
    assert broken != text
    problem = found("conv2d_relu", broken)
    assert problem is not None
    assert said in problem


def test_whole_modules_are_not_refused() -> None:
    assert found("conv2d_relu", module("conv2d_relu")) is None
    assert found("fork", module("fork")) is None


def test_the_module_of_another_plan_is_refused() -> None:
    result = planned_file(GRAPHS / "conv2d_relu.json", Options.from_mapping({"board": "n150", "policy": "dram"}))
    assert problems(read(Module(result).text()), result.device.grid_yx) == []
    assert found("conv2d_relu", Module(result).text()) is not None


def test_no_token_may_be_left_out() -> None:
    text = module("conv2d_relu")
    places = [m.span() for m in TOKEN.finditer(text) if m.lastgroup != "space"]
    chosen = random.Random(1).sample(places, min(TOKENS_TRIED, len(places)))
    survivors = [text[a:b] for a, b in chosen if found("conv2d_relu", text[:a] + text[b:]) is None]
    assert survivors == []
