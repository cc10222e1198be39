"""Kernels of regions: blocks and files, executed C++, the emitted program and its replay, what graph.json says."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import region_witness
from placed_graphs import BLOCK, HEIGHT, N150, WIDTH, placed, shards
from region_witness import interpret_region, run_region, shrunk

from optimizer.cli import main
from optimizer.device import DeviceSpec
from optimizer.export.registry import emit
from optimizer.export.ttnn_py import render, ttnn_program
from optimizer.export.ttnn_py.formatting import LINE_LENGTH
from optimizer.export.ttnn_py.fused import fused_text
from optimizer.fusion.binding import FusedKernel, fused_kernels, savings
from optimizer.fusion.finding import find_regions
from optimizer.fusion.judged import judged
from optimizer.fusion.lowering import program_of
from optimizer.fusion.placement import Kind
from optimizer.fusion.regions import Region, Scheme, blocks_of
from optimizer.ir.builder import GraphBuilder
from optimizer.kernels.tensix.executor.execute import has_compiler
from optimizer.kernels.tensix.types import CircularBufferType
from optimizer.layouts.memory_config import L1_TILE, TensorLayout, TensorMemoryLayout
from optimizer.layouts.tiling import TILE
from optimizer.opmodel.registry import create
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from optimizer.pipeline.replay import replay
from optimizer.result import OptimizedGraph

X = (1, 1, 256, 128)
HOME = shards(X, (8, 2))
ROWS = shards(X, (8, 1), HEIGHT)
executed = pytest.mark.skipif(not has_compiler(), reason="g++ is not installed")


def gated(layout: TensorLayout = HOME) -> OptimizedGraph:
    """x * gelu(y), spilled: y is in DRAM, and x comes from another grid."""
    b = GraphBuilder("gated")
    x, y = b.input("x", X), b.input("y", X)
    x_there = b.op("ttnn.to_memory_config", x, name="reshard")
    v = b.op("ttnn.multiply", x_there, b.op("ttnn.gelu", y))
    graph = b.finish(b.op("ttnn.to_memory_config", v, name="spill"))
    return placed(graph, {"x": L1_TILE, x_there: layout, "gelu_out": layout, v: layout}, fuse_kernels=True)


def residual_norm() -> OptimizedGraph:
    """x + y, which others read too, and its layer norm with scale and shift."""
    b = GraphBuilder("residual")
    s = b.op("ttnn.add", b.input("x", X), b.input("y", X))
    n = b.op("ttnn.layer_norm", s, b.parameter("scale", (128,)), b.parameter("shift", (128,)))
    return placed(b.finish(s, n), {"x": ROWS, "y": ROWS, n: ROWS}, fuse_kernels=True)


def region_of(result: OptimizedGraph) -> Region:
    found = find_regions(result)
    assert len(found) == 1
    return found[0]


def kernel_of(result: OptimizedGraph) -> FusedKernel:
    found = fused_kernels(result)
    assert len(found) == 1
    return found[0]


def of_shape(shape: tuple[int, ...], grid: tuple[int, int], graph: Callable[[GraphBuilder, str], str]) -> Region:
    """The region of a graph of one sharded input and one result in DRAM."""
    b = GraphBuilder("shaped")
    x = b.input("x", shape)
    return region_of(placed(b.finish(graph(b, x)), {x: shards(shape, grid)}))


# -- blocks --------------------------------------------------------------------------------------------------
def test_a_shard_that_stays_is_one_block() -> None:
    b = GraphBuilder("stays")
    v = b.op("ttnn.square", b.op("ttnn.exp", b.input("x", (1, 1, 2048, 2048))))
    home = shards((1, 1, 2048, 2048), (8, 8))
    region = region_of(placed(b.finish(b.op("ttnn.permute", v, dims=(0, 1, 3, 2))), {"x": home, v: home}))
    assert (blocks_of(region).shape, blocks_of(region).count) == ((8, 8), 1)


@pytest.mark.parametrize(
    ("shape", "block", "count"),
    [
        ((1, 1, 1024, 256), (4, 1), 1),
        ((1, 1, 2048, 2048), (2, 8), 4),
        ((1, 1, 256, 10240), (1, 10), 4),
        ((1, 1, 7 * 256, 256 * 3), (1, 3), 7),
    ],
)
def test_what_is_brought_and_taken_goes_by_blocks(shape: tuple[int, ...], block: tuple[int, int], count: int) -> None:
    region = of_shape(shape, (8, 8), lambda b, x: b.op("ttnn.square", b.op("ttnn.exp", x)))
    assert (blocks_of(region).shape, blocks_of(region).count) == (block, count)


def test_buffers_of_blocks_are_small() -> None:
    region = of_shape((1, 1, 2048, 2048), (8, 8), lambda b, x: b.op("ttnn.square", b.op("ttnn.exp", x)))
    binds = [op for op in program_of(region).body.ops if op.name == "ttl.bind_cb"]
    types = [op.result.type for op in binds]
    assert all(isinstance(t, CircularBufferType) for t in types)
    assert [(op.has_attr("tensor"), t.block_count) for op, t in zip(binds, types, strict=True)] == [
        (True, 4),
        (False, 2),
    ]


# -- executed ------------------------------------------------------------------------------------------------
@executed
@pytest.mark.parametrize("core", [(0, 0), (1, 1)])
def test_gated_on_every_corner(core: tuple[int, int]) -> None:
    run = run_region(shrunk(region_of(gated()), (2, 2), (1, 2)), core)
    assert (run.mismatches, run.elements) == (0, 2 * TILE * TILE)


@executed
def test_blocks_of_a_larger_shard() -> None:
    """5x4 tiles per core in five blocks, a row brought once, a column block by block."""
    b = GraphBuilder("large")
    shape = (1, 1, 8 * 5 * TILE, 8 * 4 * TILE)
    v = b.op(
        "ttnn.multiply",
        b.op("ttnn.add", b.input("x", shape), b.parameter("row", shape[-1:])),
        b.input("c", (shape[-2], 1)),
    )
    region = shrunk(region_of(placed(b.finish(v), {"x": shards(shape, (8, 8))})), (2, 2), (5, 4))
    assert [(o.kind, o.resident) for o in region.inputs] == [(Kind.FULL, True), (Kind.ROW, False), (Kind.COLUMN, False)]
    assert blocks_of(region).count == 5
    assert run_region(region, (1, 1)).mismatches == 0


def product_by_blocks() -> OptimizedGraph:
    """x * y, spilled: 8x8 tiles per core in four blocks, and one init for all of them."""
    b = GraphBuilder("product")
    x, y = b.input("x", (1, 1, 2048, 2048)), b.input("y", (1, 1, 2048, 2048))
    v = b.op("ttnn.multiply", x, y)
    graph = b.finish(b.op("ttnn.to_memory_config", v, name="spill"))
    home = shards((1, 1, 2048, 2048), (8, 8))
    return placed(graph, {"x": home, v: home}, fuse_kernels=True)


def test_an_init_that_all_blocks_need_stands_before_their_loop() -> None:
    compute = kernel_of(product_by_blocks()).sources[0].text
    assert compute.count("mul_init(cb_0, cb_1);") == 1
    assert compute.index("mul_init(cb_0, cb_1);") < compute.index("for (")


@executed
def test_blocks_that_share_an_init() -> None:
    region = shrunk(region_of(product_by_blocks()), (2, 2), (8, 8))
    assert blocks_of(region).count == 4
    assert interpret_region(region, (1, 1)).mismatches == 0
    assert run_region(region, (1, 1)).mismatches == 0


def test_savings_of_ops_that_alone_would_go_by_blocks() -> None:
    """gelu(x) * exp(x) -> silu -> + x, all but the product in DRAM: every op alone streams its blocks."""
    shape = (1, 1, 2048, 2048)
    b = GraphBuilder("gated")
    x = b.input("x", shape)
    product = b.op("ttnn.multiply", b.op("ttnn.gelu", x), b.op("ttnn.exp", x))
    result = placed(b.finish(b.op("ttnn.add", b.op("ttnn.silu", product), x)), {product: shards(shape, (8, 8))})
    record = savings(result, fused_kernels(result))[0]
    assert (len(record["ops"]), record["circular_buffers"], record["circular_buffers_saved"]) == (5, 2, 10)


@executed
def test_layer_norm_beside_its_operand() -> None:
    region = region_of(residual_norm())
    assert [o.resident for o in region.outputs] == [False, True]
    assert run_region(shrunk(region, (2, 1), (1, 4)), (1, 0)).mismatches == 0


@executed
def test_softmax_of_width_shards_with_one_column_of_cores() -> None:
    b = GraphBuilder("softmax")
    shape = (1, 1, 2 * TILE, 3 * TILE)
    v = b.op("ttnn.softmax", b.op("ttnn.multiply", b.input("x", shape), scalar=0.125), dim=-1)
    region = region_of(placed(b.finish(v), {"x": shards(shape, (1, 1), WIDTH)}))
    assert run_region(region, (0, 0)).mismatches == 0


@executed
@pytest.mark.parametrize("origin", [(0, 0), (1, 0)])
def test_the_witness_sees_a_kernel_that_takes_the_tiles_of_another_core(
    origin: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    region = shrunk(region_of(gated()), (2, 2), (1, 2))
    assert region.home.core_map is not None
    moved = replace(region, home=replace(region.home, core_map=replace(region.home.core_map, origin=origin)))
    monkeypatch.setattr(region_witness, "program_of", lambda _region: program_of(moved))
    assert (run_region(region, (1, 1)).mismatches > 0) == (origin != (0, 0))


@executed
@pytest.mark.parametrize(
    ("grid", "kind", "shard", "count"),
    [((8, 2), BLOCK, (1, 2), 2), ((4, 4), BLOCK, (2, 1), 1), ((8, 1), HEIGHT, (1, 2), 2)],
    ids=["columns stream by", "one block", "rows on the core"],
)
def test_a_dense_layer(grid: tuple[int, int], kind: TensorMemoryLayout, shard: tuple[int, int], count: int) -> None:
    """relu(a @ w + bias) * 0.5 + x."""
    b = GraphBuilder("dense")
    shape, depth = (1, 1, 8 * TILE, 2 * TILE * (2 if kind is BLOCK else 1)), 3 * TILE
    a = b.input("a", (*shape[:-1], depth))
    weights = b.parameter("w", (depth, shape[-1])), b.parameter("bias", shape[-1:])
    m = b.op("ttnn.linear", a, *weights, activation="relu")
    v = b.op("ttnn.add", b.op("ttnn.multiply", m, scalar=0.5), b.input("x", shape))
    layouts = {v: shards(shape, grid, kind)} | ({a: shards((*shape[:-1], depth), grid, kind)} if kind is HEIGHT else {})
    region = region_of(placed(b.finish(b.op("ttnn.permute", v, dims=(0, 1, 3, 2))), {"x": layouts[v], **layouts}))
    small = shrunk(region.fed(Scheme()), (2, 2), shard)
    assert blocks_of(small).count == count
    assert small.inputs[0].resident == (kind is HEIGHT)
    assert run_region(small, (1, 0)).mismatches == 0


@executed
def test_a_norm_of_products_has_whole_rows() -> None:
    """layer_norm(a @ w + bias + x): rows of one tile each, which must not stream by column by column."""
    b = GraphBuilder("normed")
    shape, depth = (1, 1, 16 * TILE, 4 * TILE), 2 * TILE
    a = b.input("a", (*shape[:-1], depth))
    m = b.op("ttnn.linear", a, b.parameter("w", (depth, shape[-1])), b.parameter("bias", shape[-1:]))
    v = b.op("ttnn.add", m, b.input("x", shape))
    n = b.op("ttnn.layer_norm", v, b.parameter("g", shape[-1:]), b.parameter("h", shape[-1:]))
    layouts = {name: shards(shape, (16, 1), HEIGHT) for name in ("x", v, n)}
    region = shrunk(region_of(placed(b.finish(n), layouts)), (2, 1), (1, 4))
    assert region.multiplies
    assert blocks_of(region).shape == (1, 4)
    assert run_region(region, (1, 0)).mismatches == 0


@executed
@pytest.mark.parametrize("core", [(0, 0), (0, 1)])
def test_a_column_of_block_shards_stays_a_column_when_shrunk(core: tuple[int, int]) -> None:
    region = of_shape((1, 1, 256, 64), (8, 1), lambda b, x: b.op("ttnn.square", b.op("ttnn.exp", x)))
    assert run_region(shrunk(region, (2, 2), (1, 2)), core).mismatches == 0


def test_blocks_of_a_larger_shard_on_numpy() -> None:
    """Blocks one after the other in the interpreter: columns of a product stream by."""
    b = GraphBuilder("streamed")
    shape, depth = (1, 1, 8 * TILE, 2 * TILE), 3 * TILE
    v = b.op("ttnn.gelu", b.op("ttnn.matmul", b.input("a", (*shape[:-1], depth)), b.parameter("w", (depth, shape[-1]))))
    region = shrunk(region_of(placed(b.finish(v), {v: shards(shape, (8, 1))})), (2, 1), (1, 2))
    assert blocks_of(region).count == 2
    assert interpret_region(region, (0, 1)).mismatches == 0


# -- files and program ---------------------------------------------------------------------------------------
def test_golden_kernels(golden: Callable[[str, str], None]) -> None:
    files = kernel_of(gated()).files()
    assert sorted(files) == [f"reshard_gelu_multiply_spill/{kind}.cpp" for kind in ("compute", "reader", "writer")]
    moving = [f"// ---- {name}\n{text}" for name, text in sorted(files.items()) if "compute" not in name]
    golden("kernels/gated.cpp.txt", "\n".join(moving))
    compute = next(text for name, text in files.items() if "compute" in name)
    assert "gelu_tile" in compute
    assert "mul_" in compute


def test_golden_program(golden: Callable[[str, str], None]) -> None:
    golden("kernels/gated.py.txt", render(ttnn_program(gated())))


@pytest.mark.parametrize(("board", "wide", "narrow"), [("n150", "HiFi3", "HiFi4"), ("p150", "HiFi4", "HiFi4")])
def test_wormhole_adds_up_in_32_bits_at_hifi3(board: str, wide: str, narrow: str) -> None:
    """At HiFi4 its FPU gives single values that are off by a power of two (tenstorrent/tt-metal #38306)."""
    device = DeviceSpec.preset(board)
    stated = {
        (fidelity, dst): f"MathFidelity.{fidelity}, fp32_dest_acc_en={dst})"
        for fidelity in ("HiFi3", "HiFi4")
        for dst in (True, False)
    }
    for result, due in ((residual_norm(), (wide, True)), (gated(), (narrow, False))):
        text = " ".join(render(ttnn_program(replace(result, device=device))).split())
        assert [key for key, words in stated.items() if words in text] == [due]


def test_what_a_kernel_says_of_its_configuration_reaches_the_host() -> None:
    kernel = kernel_of(gated())
    stated = kernel.lowered.with_attrs(math_fidelity="LoFi", math_approx_mode=True)
    text = " ".join(fused_text(gated(), [replace(kernel, lowered=stated)]).split())
    assert "math_fidelity=ttnn.MathFidelity.LoFi, fp32_dest_acc_en=False, math_approx_mode=True" in text


def test_equal_regions_share_their_kernel() -> None:
    b = GraphBuilder("twice")
    layouts = {}
    outputs = []
    for k in range(2):
        x = b.input(f"x{k}", X)
        layouts[x] = HOME
        outputs.append(b.op("ttnn.square", b.op("ttnn.exp", x)))
    other = b.input("y", X)
    outputs.append(b.op("ttnn.square", b.op("ttnn.abs", other)))
    result = placed(b.finish(*outputs), {**layouts, other: HOME}, fuse_kernels=True)
    assert [(k.name, len(k.regions)) for k in fused_kernels(result)] == [("exp_square", 2), ("abs_square", 1)]
    text = render(ttnn_program(result))
    assert text.count("def exp_square(") == 1
    assert text.count("= exp_square(device, x") == 2


def test_without_the_option_nothing_changes() -> None:
    result = gated()
    result.options = replace(result.options, fuse_kernels=False)
    program = ttnn_program(result)
    assert "generic_op" not in render(program)
    assert dict(program.files) == {}


def test_emitting_writes_the_kernels_beside_the_program(tmp_path: Path) -> None:
    path = emit(gated(), "ttnn-py", tmp_path)
    written = sorted(str(p.relative_to(tmp_path)) for p in tmp_path.rglob("*") if p.is_file())
    folder = "kernels/reshard_gelu_multiply_spill"
    assert written == [
        "full_speed.py",
        *(f"{folder}/{k}.cpp" for k in ("compute", "reader", "writer")),
        "model_ttnn.py",
        "run_model.py",
    ]
    named = {n.value for n in ast.walk(ast.parse(path.read_text())) if isinstance(n, ast.Constant)}
    assert {f"reshard_gelu_multiply_spill/{k}.cpp" for k in ("compute", "reader", "writer")} <= named


def test_formatter_and_linter_have_nothing_to_say(tmp_path: Path) -> None:
    paths = [emit(r, "ttnn-py", tmp_path / r.graph.name) for r in (gated(), residual_norm())]
    ruff = [sys.executable, "-m", "ruff"]
    own = ["--isolated", "--line-length", str(LINE_LENGTH)]
    for words in (["format", "--check", *own], ["check", "--select", "E,F,I,W,B,UP", *own]):
        done = subprocess.run([*ruff, *words, *map(str, paths)], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr


def test_results_that_are_unpacked_and_freed() -> None:
    """Of two results, one is read on: `s, n = add_layer_norm(...)`, and nothing frees what is returned."""
    lines = render(ttnn_program(residual_norm())).splitlines()
    call = next(line.strip() for line in lines if "= add_layer_norm(" in line)
    assert call == "add, layer_norm = add_layer_norm(device, x, y, scale, shift)"


# -- what it saves -------------------------------------------------------------------------------------------
def test_savings_of_gated() -> None:
    """Three tensors of 2 tiles per core are no more; three values change hands in DST. A copy has two buffers."""
    result = gated()
    (record,) = savings(result, fused_kernels(result))
    assert record == {
        "kernel": "reshard_gelu_multiply_spill",
        "ops": ["reshard", "gelu", "multiply", "spill"],
        "place": "spill",
        "inputs": ["x", "y"],
        "outputs": ["spill_out"],
        "cores": 16,
        "tiles_per_core": [1, 2],
        "multicast": [],
        "k_block": None,
        "l1_bytes_saved": 3 * 2 * 2048,
        "dram_bytes_saved_total": 0,
        "round_trips_saved": 3,
        "circular_buffers": 3,
        "circular_buffers_saved": 2 + 2 + 3 + 2 - 3,
        "circular_buffer_bytes": 3 * 2 * 2048,
        "judged_by": judged(N150.arch).judged_by,
        "unjudged": [],
    }


def test_savings_in_dram() -> None:
    """A spill that is read back at once: written no more, and read no more."""
    b = GraphBuilder("dram")
    s = b.op("ttnn.to_memory_config", b.input("x", X))
    result = placed(b.finish(b.op("ttnn.exp", s)), {"x": HOME})
    (record,) = savings(result, fused_kernels(result))
    assert record["dram_bytes_saved_total"] == 2 * 8 * 4 * 2048
    assert record["l1_bytes_saved"] == 0


def test_graph_json_lists_regions(tmp_path: Path, project_root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    model = project_root / "fixtures" / "graphs" / "fork.json"
    words = ["--policy", "dfsharding", "--emit", "ttnn-py", "--fuse-kernels"]
    assert main(["optimize", str(model), "-o", str(tmp_path), *words]) == 0
    document = json.loads((tmp_path / "graph.json").read_text())
    assert document["options"]["fuse_kernels"] is True
    assert [r["kernel"] for r in document["fused_kernels"]] == ["gelu_exp_neg_add_spill"]
    assert [p.name for p in (tmp_path / "kernels").iterdir()] == ["gelu_exp_neg_add_spill"]
    assert "fused kernels" in capsys.readouterr().out


# -- replayed ------------------------------------------------------------------------------------------------
@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("build", [gated, residual_norm])
def test_tt_metal_takes_the_fused_program(build: Callable[[], OptimizedGraph]) -> None:
    result = build()
    report = replay(result, create("ttmetal", N150, result.options.l1_small_bytes), {})
    assert [s.message for s in report.failures] == []
    assert report.ok


@pytest.mark.usefixtures("needs_ttnn")
def test_tt_metal_refuses_buffers_that_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """The replay is no formality: circular buffers larger than L1 are refused, with tt-metal's words."""
    result = gated()
    program = ttnn_program(result)
    large = replace(program, prelude=program.prelude.replace("2048, 2, cores", "2048, 2000, cores"))
    assert large != program
    monkeypatch.setattr("optimizer.pipeline.replay.ttnn_program", lambda _result: large)
    report = replay(result, create("ttmetal", N150, result.options.l1_small_bytes), {})
    assert [s.op for s in report.failures] == ["spill"]
    assert "beyond max L1 size" in report.failures[0].message


@pytest.mark.usefixtures("needs_ttnn")
@pytest.mark.parametrize("name", ["fork", "conv2d_relu"])
def test_plans_of_policies_are_checked_as_they_are_emitted(name: str, project_root: Path) -> None:
    """`--check ttmetal` replays the program with its kernels: fewer steps than ops."""
    options = Options(policy="dfsharding", fuse_kernels=True, check="ttmetal")
    result = optimize_file(project_root / "fixtures" / "graphs" / f"{name}.json", options)
    fused = sum(len(r["ops"]) - 1 for r in result.fused_kernels)
    check = result.summary.check
    assert fused > 0
    assert (check.ok, check.ops) == (True, len(result.graph.run_ops()) - fused)
