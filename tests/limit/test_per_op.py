"""What every op of a plan cannot do without: whose bytes it moves, and at which peak its products count."""

from __future__ import annotations

from pathlib import Path

import pytest

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.ir.dtype import DType
from optimizer.ir.graph import STATIC
from optimizer.limit.per_op import OpLimit, op_limits
from optimizer.options import Options
from optimizer.result import OptimizedGraph, Role
from tests import plans

GRAPHS = Path(__file__).resolve().parents[2] / "fixtures" / "graphs"
N150 = DeviceSpec.preset("n150")


def limits(result: OptimizedGraph) -> dict[str, OpLimit]:
    return op_limits(result)


def planned(b: GraphBuilder, *outputs: str, **options: object) -> OptimizedGraph:
    return plans.planned(b.finish(*outputs), N150, Options.from_mapping({"policy": "dram", **options}))


def product(rows: int, **options: object) -> OptimizedGraph:
    """[rows, 512] times [512, 1024]."""
    b = GraphBuilder("product")
    x = b.input("x", (1, 1, rows, 512))
    return planned(b, b.op("ttnn.linear", x, b.parameter("w", (512, 1024)), name="fc"), **options)


def test_a_product_reads_its_operands_and_writes_its_result() -> None:
    found = limits(product(100))["fc"]
    assert found.dram_bytes == 2 * (100 * 512 + 512 * 1024 + 100 * 1024)
    assert found.flops == 2 * 100 * 512 * 1024
    assert found.dram_ns == pytest.approx(found.dram_bytes / 267)
    assert found.compute_ns == pytest.approx(100 * 512 * 1024 / 32**3 * 32 / 64)  # HiFi2, 64 cores at 1 GHz
    assert found.padded_ns == pytest.approx(128 / 100 * found.compute_ns)
    assert found.ns == max(found.dram_ns, found.compute_ns)


def test_the_fidelity_decides_the_peak_and_the_type_of_weights_the_bytes() -> None:
    plain, more = (limits(product(128, math_fidelity=f))["fc"] for f in ("lofi", "hifi4"))
    assert more.compute_ns == pytest.approx(4 * plain.compute_ns)
    assert more.dram_bytes == plain.dram_bytes
    packed = limits(product(128, weights_dtype="bfp8_b"))["fc"]
    assert plain.dram_bytes - packed.dram_bytes == 512 * 1024 * (2048 - 1088) // 1024


def test_what_stays_in_dram_between_ops_is_not_compulsory() -> None:
    b = GraphBuilder("three")
    a = b.op("ttnn.relu", b.input("x", (1, 1, 64, 64)), name="first")
    c = b.op("ttnn.exp", a, name="second")
    found = limits(planned(b, b.op("ttnn.add", c, a, name="third")))
    assert [found[op].dram_bytes for op in ("first", "second", "third")] == [8192, 0, 8192]
    assert found["second"] == OpLimit()


def test_an_input_counts_once_for_its_first_reader_and_an_output_for_its_writer() -> None:
    b = GraphBuilder("twice")
    x = b.input("x", (1, 1, 64, 64))
    a = b.op("ttnn.relu", x, name="first")
    found = limits(planned(b, a, b.op("ttnn.add", x, a, name="second")))
    assert [found[op].dram_bytes for op in ("first", "second")] == [8192 + 8192, 8192]


def test_a_table_counts_with_the_rows_that_are_looked_up() -> None:
    b = GraphBuilder("lookup")
    ids, table = b.input("ids", (1, 32), DType.U32), b.parameter("table", (50000, 64))
    result = planned(b, b.op("ttnn.embedding", ids, table, name="rows"))
    assert sum(limit.dram_bytes for limit in limits(result).values()) == 32 * 4 + 2 * 32 * 64 * 2


def test_a_view_moves_nothing_and_its_reader_reads_the_input() -> None:
    b = GraphBuilder("view")
    x = b.op("ttnn.reshape", b.input("x", (1, 1, 64, 64)), shape=(1, 2, 32, 64), name="turned")
    result = planned(b, b.op("ttnn.relu", x, name="act"))
    found = limits(result)
    assert result.records["turned"].role is Role.VIEW
    assert (found["turned"], found["act"].dram_bytes) == (OpLimit(), 2 * 8192)


def test_weights_that_stay_in_l1_are_not_read_again() -> None:
    held, read = (product(128, policy="global", weights_in_l1=kept) for kept in (True, False))
    assert held.program.weights
    total = [sum(limit.dram_bytes for limit in limits(r).values()) for r in (held, read)]
    assert total[1] - total[0] == 2 * 512 * 1024


def test_convolutions_read_weights_in_the_type_they_prepare_them_in() -> None:
    b = GraphBuilder("conv")
    x = b.input("x", (1, 1, 256, 64))
    attrs = {"in_channels": 64, "out_channels": 128, "batch_size": 1, "input_height": 16, "input_width": 16,
             "kernel_size": (3, 3), "padding": (1, 1, 1, 1)}  # fmt: skip
    y = b.op("ttnn.conv2d", x, b.parameter("w", (128, 64, 3, 3)), name="conv", **attrs)
    result = planned(b, y, weights_dtype="bfp8_b")
    found = limits(result)["conv"]
    assert result.records["conv"].predicted.dram_read_bytes >= 256 * 64 * 2 + 128 * 64 * 9 * 1088 // 1024
    assert found.dram_bytes == 256 * 64 * 2 + 128 * 64 * 9 * 1088 // 1024 + 256 * 128 * 2
    assert found.flops == 2 * (16 * 3 - 2) ** 2 * 64 * 128


def test_ops_on_the_host_have_no_limit_but_their_transfers_may() -> None:
    options = Options.from_mapping({"policy": "dram", "allow_host_ops": True})
    result = plans.planned_file(GRAPHS / "opaque.json", options)
    found = limits(result)
    assert found.keys() == {op_id for op_id, record in result.records.items() if record.role is not Role.HOST}
    assert len(found) < len(result.records)
    moved = sum(result.graph.value(v).volume for v in (*result.graph.inputs, *result.graph.outputs))
    weights = [v for v in result.graph.values.values() if v.kind in STATIC]
    assert sum(limit.dram_bytes for limit in found.values()) == 2 * (moved + sum(v.volume for v in weights))
