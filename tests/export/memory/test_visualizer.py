"""The report for ttnn-visualizer: the wheel's own schema, and figures of the plan and the timeline."""

from __future__ import annotations

import importlib
import importlib.util
import json
import re
import sqlite3
import sys
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from optimizer.answers.timeline import timeline
from optimizer.export.memory.visualizer import CREATE, write
from optimizer.export.memory.visualizer.report import SCHEMA_VERSION
from optimizer.export.ttnn_py.building import ttnn_program
from optimizer.ir.graph import Op
from optimizer.layouts.tiling import round_up
from optimizer.program.lifetimes import DEALLOCATE
from optimizer.result import OptimizedGraph, Role
from tests.export.memory.exported import HOSTILE, RESULTS
from tests.l1.rule_cases import written_over

DRAM, L1 = 0, 1
SHOWN_LAYOUTS = {"interleaved": 0, "height_sharded": 2, "width_sharded": 3, "block_sharded": 4}
"""Numbers by which the viewer's page names the layout of a buffer. ttnn's own importer writes others (1, 2, 3)."""
SHOWN_SHARDS = re.compile(
    r"shard_spec=ShardSpec\(grid=\{(\[.*?\])\},shape=\{(\d+),\s*(\d+)\},orientation=ShardOrientation::([A-Z_]+),halo=(\d+)\)"
)
"""What the viewer reads of a memory config's shards."""


class Opened:
    """A report that is written, and questions to it."""

    def __init__(self, result: OptimizedGraph, folder: Path) -> None:
        self.result = result
        self.folder = write(result, folder)
        self.kernels = {kernel["place"]: kernel for kernel in result.fused_kernels}
        fused = {op for kernel in result.fused_kernels for op in kernel["ops"]} - set(self.kernels)
        ran = [op for op in result.graph.ops() if not result.graph.is_const_eval(op) and op.id not in fused]
        self.run = [self._in_place_of(op) for op in ran]
        """The ops of a run; in the place of a kernel's, one that reads and gives what the kernel does."""
        told = self.ask("SELECT value, operation_id FROM operation_arguments WHERE name = 'ttopt.op'")
        self.number: dict[str, int] = dict(told)
        """Op -> its operation."""

    def _in_place_of(self, op: Op) -> Op:
        kernel = self.kernels.get(op.id)
        return op if kernel is None else replace(op, inputs=tuple(kernel["inputs"]), outputs=tuple(kernel["outputs"]))

    def time_ns(self, op: Op) -> int | None:
        predicted = self.result.records[op.id].predicted
        if op.id in self.kernels:
            return int(self.kernels[op.id]["predicted_ns"])
        return None if predicted is None else predicted.time_ns

    def ask(self, query: str, *values: object) -> list[Any]:
        with closing(sqlite3.connect(self.folder / "db.sqlite")) as connection:
            return connection.execute(query, values).fetchall()

    def outputs(self) -> dict[str, tuple[Any, ...]]:
        """Value -> shape, address, buffer type and storage of the tensor that its op gives."""
        asked = (
            "SELECT t.shape, t.address, t.buffer_type, t.storage_type FROM output_tensors o JOIN tensors t"
            " ON t.tensor_id = o.tensor_id WHERE o.operation_id = ? ORDER BY o.output_index"
        )
        made = ((op.outputs, self.ask(asked, self.number[op.id])) for op in self.run)
        return {value: row for values, rows in made for value, row in zip(values, rows, strict=True)}


@pytest.fixture(scope="module", params=RESULTS)
def opened(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    return Opened(RESULTS[request.param](), tmp_path_factory.mktemp("report"))


# -- schema --------------------------------------------------------------------------------------------------
def schema(connection: sqlite3.Connection) -> dict[str, list[tuple[Any, ...]]]:
    """Table -> its columns (number, name, type, not null, default, key) and what is unique in it."""
    tables = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table' ORDER BY name").fetchall()
    found = {}
    for (table,) in tables:
        columns = connection.execute(f"PRAGMA table_info({table})").fetchall()
        unique = [row[1:4] for row in connection.execute(f"PRAGMA index_list({table})") if row[2]]
        found[table] = [*columns, *sorted(unique)]
    return found


def test_tables_are_those_of_the_wheel(needs_ttnn: None, monkeypatch: pytest.MonkeyPatch) -> None:
    found = importlib.util.find_spec("ttnn")
    assert found is not None
    assert found.origin is not None
    monkeypatch.setattr(sys, "path", [*sys.path, str(Path(found.origin).parent)])
    graph_report = importlib.import_module("graph_report")
    with closing(sqlite3.connect(":memory:")) as wheel, closing(sqlite3.connect(":memory:")) as ours:
        graph_report.create_database_schema(wheel.cursor())
        for statement in CREATE:
            ours.execute(statement)
        wanted, made = schema(wheel), schema(ours)

    size = made["tensors"].pop(len(wanted["tensors"]) - 1)
    assert (size[1], size[2].lower()) == ("size", "int")
    assert made == wanted
    assert graph_report.DATABASE_SCHEMA_VERSION == SCHEMA_VERSION


# -- the program ---------------------------------------------------------------------------------------------
def test_operations_are_the_ops_of_a_run_and_deallocations(opened: Opened) -> None:
    rows = opened.ask("SELECT operation_id, name, duration FROM operations ORDER BY operation_id")
    program = ttnn_program(opened.result)
    frees = {step.op: step.frees for step in program.run_steps if step.op is not None}
    wanted = [name for op in opened.run for name in (op.id, *(DEALLOCATE for _ in frees.get(op.id, ())))]
    names = {number: op for op, number in opened.number.items()}

    assert [number for number, _, _ in rows] == list(range(1, len(rows) + 1))
    assert [names.get(number, name) for number, name, _ in rows] == wanted
    stated = {op.id: time_ns for op in opened.run if (time_ns := opened.time_ns(op)) is not None}
    assert {op: round(rows[opened.number[op] - 1][2] * 1e9) for op in stated} == stated


def test_tensors_are_deallocated_in_the_order_of_the_program(opened: Opened) -> None:
    program = ttnn_program(opened.result)
    values = {f"{DEALLOCATE}({name})": v for step in program.run_steps for name, v in step.results}
    made = {(opened.number[op.id], k): v for op in opened.run for k, v in enumerate(op.outputs)}
    rows = opened.ask("SELECT t.operation_id, t.output_index FROM operations o JOIN input_tensors i"
                      " ON i.operation_id = o.operation_id JOIN output_tensors t ON t.tensor_id = i.tensor_id"
                      " WHERE o.name = ? ORDER BY o.operation_id", DEALLOCATE)  # fmt: skip

    assert [made[row] for row in rows] == [values[text] for step in program.run_steps for text in step.frees]


def test_tensors_lie_where_the_plan_says(opened: Opened) -> None:
    result, found = opened.result, opened.outputs()

    assert {v: row[0] for v, row in found.items()} == {v: f"Shape({list(result.graph.value(v).shape)})" for v in found}
    places = {v: (row[2], row[3]) for v, row in found.items()}
    for v, place in places.items():
        layout = result.layouts[v]
        assert place == ((None, "HOST") if layout.is_host else (L1 if layout.is_l1 else DRAM, "DEVICE")), v
    top = result.device.worker_l1_bytes - result.options.l1_small_bytes
    placed = {v: top - depth for p in timeline(result).positions for v, depth in p.memory.placed if v in found}
    assert {v: found[v][1] for v in placed} == placed


def test_shards_are_written_as_the_viewer_reads_them(opened: Opened) -> None:
    texts = opened.ask("SELECT memory_config FROM tensors WHERE memory_config LIKE '%_SHARDED%'")
    read = [SHOWN_SHARDS.search(text) for (text,) in texts]
    values = {v for op in opened.run for v in (*op.inputs, *op.outputs)}
    specs = {tuple(s.shape) for v in values if (s := opened.result.layouts[v].shard_spec) is not None}

    assert {(int(found[2]), int(found[3])) if found else None for found in read} == specs


def test_edges_are_those_of_the_graph(opened: Opened) -> None:
    made = dict(opened.ask("SELECT tensor_id, operation_id FROM output_tensors"))
    names = {number: op for op, number in opened.number.items()}
    for op in opened.run:
        read = opened.ask("SELECT tensor_id FROM input_tensors WHERE operation_id = ? ORDER BY input_index",
                          opened.number[op.id])  # fmt: skip
        producers = {v: other.id for other in opened.run for v in other.outputs}
        assert [names.get(made.get(tensor, 0)) for (tensor,) in read] == [producers.get(v) for v in op.inputs]


def test_lifetimes_are_those_that_the_wheel_would_work_out(opened: Opened) -> None:
    for tensor, made, used, freed in opened.ask(
        "SELECT tensor_id, producer_operation_id, last_use_operation_id, deallocate_operation_id FROM tensor_lifetime"
    ):
        reads = opened.ask("SELECT i.operation_id, o.name FROM input_tensors i JOIN operations o"
                           " ON o.operation_id = i.operation_id WHERE tensor_id = ?", tensor)  # fmt: skip
        uses = [number for number, name in reads if name != DEALLOCATE]
        frees = [number for number, name in reads if name == DEALLOCATE]
        makers = [row[0] for row in opened.ask("SELECT operation_id FROM output_tensors WHERE tensor_id = ?", tensor)]
        assert (made, used, freed) == (
            min(makers, default=None), max(uses, default=None), min(frees, default=None),
        )  # fmt: skip


# -- memory --------------------------------------------------------------------------------------------------
def test_l1_before_an_op_is_what_the_timeline_lists(opened: Opened) -> None:
    unit, layouts = opened.result.device.l1_buffer_alignment_bytes, opened.result.layouts
    vanished = set(opened.result.graph.values) - {v for op in opened.run for v in (*op.inputs, *op.outputs)}
    inside = {op for kernel in opened.result.fused_kernels for op in kernel["ops"]}
    for position in timeline(opened.result).positions:
        if position.op in inside:
            continue
        number = opened.number[position.op]
        found = opened.ask(
            "SELECT max_size_per_bank, buffer_layout FROM buffers WHERE operation_id = ? AND buffer_type = ?",
            number - 1, L1,
        )  # fmt: skip
        items = [i for i in position.items if i.kind in ("weight", "tensor") and i.value not in vanished]
        wanted = [(item.size_bytes, SHOWN_LAYOUTS[layouts[item.value].memory_layout.value]) for item in items]
        if number > 1:
            assert sorted((round_up(size, unit), form) for size, form in found) == sorted(wanted), position.op


@pytest.mark.parametrize("kind", [DRAM, L1])
def test_buffers_of_an_operation_do_not_overlap(opened: Opened, kind: int) -> None:
    rows = opened.ask("SELECT operation_id, address, address + max_size_per_bank FROM buffers WHERE buffer_type = ?"
                      " ORDER BY operation_id, address", kind)  # fmt: skip

    assert [pair for pair in pairwise(rows) if pair[0][0] == pair[1][0] and pair[0][2] > pair[1][1]] == []


def test_chunks_lie_on_cores_of_the_grid_and_inside_their_buffer(opened: Opened) -> None:
    rows, columns = opened.result.device.grid_yx
    sizes = {(n, a): s for n, a, s in opened.ask(
        "SELECT operation_id, address, max_size_per_bank FROM buffers WHERE buffer_type = ?", L1)}  # fmt: skip
    parts = opened.ask("SELECT operation_id, address, core_x, core_y, chunk_size FROM buffer_chunks")

    assert {(number, address) for number, address, *_ in parts} == set(sizes)
    assert all(x < columns and y < rows and 0 < size <= sizes[n, a] for n, a, x, y, size in parts)
    assert len({part[:4] for part in parts}) == len(parts)


def levels(nodes: list[dict[str, Any]]) -> Iterator[tuple[int, int]]:
    """Circular buffers and buffers after every node, as the viewer's page adds them up."""
    circular, held = 0, 0
    for node in nodes:
        kind, params = node["node_type"], node["params"]
        if kind == "circular_buffer_allocate":
            circular += int(params["size"])
        elif kind == "circular_buffer_deallocate_all":
            circular = 0
        elif kind in ("buffer_allocate", "buffer_deallocate"):
            bytes_per_core = int(params["size"]) // int(params["num_cores"])
            held += bytes_per_core if kind == "buffer_allocate" else -bytes_per_core
        yield circular, held


def test_what_happens_within_an_op_adds_up(opened: Opened) -> None:
    """To the verifier's peak; index tensors of convolutions and pools, which are in L1_SMALL, are not shown."""
    records, options = opened.result.records, opened.result.options
    inside = {op for kernel in opened.result.fused_kernels for op in kernel["ops"]}
    ran = (p for p in timeline(opened.result).positions if records[p.op].role is not Role.VIEW)
    steps = {p.op: p.memory for p in ran if p.op not in inside}
    for op, memory in steps.items():
        ((text,),) = opened.ask("SELECT captured_graph FROM captured_graph WHERE operation_id = ?", opened.number[op])
        nodes = json.loads(text)
        found = list(levels(nodes))
        index_bytes = options.l1_small_bytes if "kernel_size" in opened.result.graph.op(op).attrs else 0
        peak, own = max(map(sum, found)), memory.own_peak_bytes
        assert max(circular for circular, _ in found) == memory.cb_bytes
        assert own - index_bytes <= peak <= own + 32 * len(nodes), op
        assert [n["id"] for n in nodes] == list(range(len(nodes)))


def test_a_kernel_stands_for_its_ops(tmp_path: Path) -> None:
    opened = Opened(RESULTS["fused kernels"](), tmp_path)
    (kernel,) = opened.result.fused_kernels
    number = opened.number[kernel["place"]]
    told = dict(opened.ask("SELECT name, value FROM operation_arguments WHERE operation_id = ?", number))
    ((name,),) = opened.ask("SELECT name FROM operations WHERE operation_id = ?", number)
    ((text,),) = opened.ask("SELECT captured_graph FROM captured_graph WHERE operation_id = ?", number)
    nodes = json.loads(text)
    vanished = {v for op in kernel["ops"] for v in opened.result.graph.op(op).outputs} - set(kernel["outputs"])

    assert name == f"ttnn.generic_op ({kernel['kernel']})"
    assert json.loads(told["ttopt.ops"]) == kernel["ops"]
    assert told["ttopt.predicted.time_ns"] == str(kernel["predicted_ns"])
    assert set(kernel["ops"]) & set(opened.number) == {kernel["place"]}
    assert [n["params"]["size"] for n in nodes if n["node_type"] == "circular_buffer_allocate"] == [
        str(kernel["circular_buffer_bytes"])
    ]
    assert {n["params"]["of"] for n in nodes if n["node_type"] == "buffer_allocate"} <= set(kernel["outputs"])
    assert vanished
    assert not vanished & {n["params"].get("of") for (t,) in opened.ask("SELECT captured_graph FROM captured_graph")
                           for n in json.loads(t)}  # fmt: skip


def test_a_view_is_no_buffer_of_its_own(tmp_path: Path) -> None:
    opened = Opened(RESULTS["views"](), tmp_path)
    (view,) = [op for op in opened.run if opened.result.records[op.id].role is Role.VIEW]
    found = opened.ask("SELECT address FROM buffers WHERE operation_id = ? AND buffer_type = ?",
                       opened.number[view.id], L1)  # fmt: skip

    assert [opened.outputs()[v][1] for v in (view.inputs[0], view.outputs[0])] == [found[0][0]] * 2
    assert len(found) == 1


def test_what_is_written_into_an_operand_is_no_buffer_of_its_own(tmp_path: Path) -> None:
    case = written_over(1)
    opened = Opened(case.result(case.problem()), tmp_path)
    addresses = {v: row[1] for v, row in opened.outputs().items()}
    (y,) = [op for op in opened.run if op.id == "y"]
    found = opened.ask("SELECT address FROM buffers WHERE operation_id = ? AND buffer_type = ?", opened.number["y"], L1)

    assert addresses[y.outputs[0]] == addresses[y.inputs[0]]
    assert [address for (address,) in found].count(addresses[y.outputs[0]]) == 1


def test_a_plan_in_dram_has_no_buffer_in_l1(tmp_path: Path) -> None:
    opened = Opened(RESULTS["DRAM only"](), tmp_path)

    assert opened.ask("SELECT DISTINCT buffer_type FROM buffers") == [(DRAM,)]
    assert opened.ask("SELECT count(*) FROM buffer_chunks") == [(0,)]


def test_a_host_op_has_no_address(tmp_path: Path) -> None:
    opened = Opened(RESULTS["host op"](), tmp_path)
    (hosted,) = [op for op in opened.run if opened.result.records[op.id].role is Role.HOST]

    assert {opened.outputs()[v][1:] for v in hosted.outputs} == {(None, None, "HOST")}


# -- the file ------------------------------------------------------------------------------------------------
def test_names_are_kept_whatever_is_in_them(tmp_path: Path) -> None:
    opened = Opened(RESULTS["hostile names"](), tmp_path)

    assert (HOSTILE,) in opened.ask("SELECT value FROM operation_arguments WHERE name = 'ttopt.name'")
    assert json.loads((opened.folder / "config.json").read_text())["report_name"] == f"PREDICTED {HOSTILE} on n150"


def test_prediction_stands_in_name_and_metadata(opened: Opened) -> None:
    config = json.loads((opened.folder / "config.json").read_text(encoding="utf-8"))
    metadata = dict(opened.ask("SELECT key, value FROM report_metadata"))

    assert config["report_name"].startswith("PREDICTED ")
    assert metadata["ttopt.predicted"] == "every figure is a prediction: nothing was measured"
    assert int(metadata["total_duration_ns"]) == sum(opened.time_ns(op) or 0 for op in opened.run)


def test_two_exports_are_the_same_bytes(opened: Opened, tmp_path: Path) -> None:
    folders = (opened.folder, write(opened.result, tmp_path))
    first, second = ({p.name: p.read_bytes() for p in folder.iterdir()} for folder in folders)

    assert sorted(first) == ["config.json", "db.sqlite"]
    assert first == second
