"""Configs that several statements take become constants of the module; nothing else changes."""

from __future__ import annotations

import pytest
from expanded_configs import expanded

from optimizer.device import DeviceSpec
from optimizer.export.ttnn_py.configs import repeated_configs, shortened
from optimizer.export.ttnn_py.names import Names
from optimizer.layouts.memory_config import TensorMemoryLayout
from optimizer.layouts.tiling import sharded_layout
from optimizer.opmodel.ttnn_calls.text import memory_config_text, quoted

N150 = DeviceSpec.preset("n150")
HEIGHT = memory_config_text(sharded_layout((1, 1, 1024, 64), TensorMemoryLayout.HEIGHT_SHARDED, (32, 1), N150).memory)
BLOCK = memory_config_text(sharded_layout((1, 1, 1024, 128), TensorMemoryLayout.BLOCK_SHARDED, (8, 2), N150).memory)


def test_names_say_sharding_shard_and_cores() -> None:
    statements = [f"a = ttnn.relu(x, memory_config={HEIGHT})", f"b = ttnn.add(a, {HEIGHT}, {BLOCK})"]

    configs = repeated_configs([*statements, f"c = f({BLOCK})"], Names())

    assert configs == {
        HEIGHT: "HEIGHT_SHARDED_32X64_ON_8X4",
        BLOCK: "BLOCK_SHARDED_128X64_ON_2X8",
    }
    assert shortened(statements[0], configs) == "a = ttnn.relu(x, memory_config=HEIGHT_SHARDED_32X64_ON_8X4)"
    names = {name: text for text, name in configs.items()}
    assert [expanded(shortened(s, configs), names) for s in statements] == statements


def test_what_occurs_once_stays_where_it_is() -> None:
    statement = f"a = ttnn.relu(x, memory_config={HEIGHT})"

    configs = repeated_configs([statement, "b = ttnn.relu(a, memory_config=ttnn.DRAM_MEMORY_CONFIG)"], Names())

    assert configs == {}
    assert shortened(statement, configs) == statement


@pytest.mark.parametrize(
    "name", [HEIGHT, HEIGHT[:-3], 'a"' + HEIGHT, "HEIGHT_SHARDED_32X64_ON_8X4", "ttnn.MemoryConfig("]
)
def test_names_of_tensors_are_never_touched(name: str) -> None:
    statement = f"a = ttnn.relu(tensors[{quoted(name)}], memory_config={HEIGHT})"

    configs = repeated_configs([statement, statement], Names())
    short = shortened(statement, configs)

    assert [*configs] == [HEIGHT]
    assert short == f"a = ttnn.relu(tensors[{quoted(name)}], memory_config=HEIGHT_SHARDED_32X64_ON_8X4)"
    assert expanded(short, {v: k for k, v in configs.items()}) == statement


def test_equal_names_of_different_configs_are_told_apart() -> None:
    other = HEIGHT.replace("ROW_MAJOR", "COL_MAJOR")

    configs = repeated_configs([HEIGHT, HEIGHT, other, other], Names())

    assert [*configs.values()] == ["HEIGHT_SHARDED_32X64_ON_8X4", "HEIGHT_SHARDED_32X64_ON_8X4_1"]


def test_l1_and_dram_interleaved_have_names_of_their_own_already() -> None:
    assert repeated_configs(["f(ttnn.L1_MEMORY_CONFIG)"] * 3, Names()) == {}
