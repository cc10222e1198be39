"""ttnn-visualizer: what its HTTP API says of our report against the result and `ttopt timeline`."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from optimizer.answers.timeline import Position, timeline
from optimizer.ir.graph import Op
from optimizer.layouts.memory_config import BufferType
from optimizer.layouts.tiling import round_up
from optimizer.result import OptimizedGraph, Role
from viewing.site import Checks, answered, content, environment, free_port, server

DRAM, L1 = 0, 1
LAYOUTS = {"interleaved": 0, "height_sharded": 2, "width_sharded": 3, "block_sharded": 4}
Record = dict[str, Any]


def check(result: OptimizedGraph, report: Path, environments: Path, scratch: Path, checks: Checks) -> None:
    place = environment(environments, "ttnn-visualizer", "0.108.0")
    port = free_port()
    settings = {
        "USAGE_RECORDING_DISABLED": "true", "LAUNCH_BROWSER_ON_START": "false",
        "APP_DATA_DIRECTORY": str(scratch / "app"), "REPORT_DATA_DIRECTORY": str(scratch / "reports"),
    }  # fmt: skip
    command = [place / "ttnn-visualizer", "--host", "127.0.0.1", "--port", port]
    base = f"http://127.0.0.1:{port}"
    with server(command, f"{base}/api/up", scratch / "visualizer.log", settings):
        path = str(report.resolve())
        opened = answered(f"{base}/api/instance/local-paths", {"profiler_path": path})["instance_id"]
        _Api(f"{base}/api", opened, result, checks).everything()
        checks.equal("its page is served", b"<html" in content(base + "/").lower(), True)


class _Api:
    """One report that is open in the viewer."""

    def __init__(self, base: str, instance: str, result: OptimizedGraph, checks: Checks) -> None:
        self.base, self.instance = base, instance
        self.result, self.checks = result, checks
        graph = result.graph
        self.run: list[Op] = [op for op in graph.ops() if not graph.is_const_eval(op)]
        self.positions: dict[str, Position] = {p.op: p for p in timeline(result).positions}
        self.operations: list[Record] = self.get("operations")
        self.number: dict[str, int] = {}
        """Op -> its operation."""
        for operation in self.operations:
            named = [a["value"] for a in operation["arguments"] if a["name"] == "ttopt.op"]
            self.number |= dict.fromkeys(named, operation["id"])
        self.by_number = {operation["id"]: operation for operation in self.operations}

    def get(self, path: str, **arguments: object) -> Any:
        return answered(f"{self.base}/{path}?{urlencode({'instanceId': self.instance, **arguments})}")

    def everything(self) -> None:
        self.ops()
        self.tensors()
        self.device()
        self.buffers()
        self.within()
        self.cores()
        self.title()

    def ops(self) -> None:
        records, checks = self.result.records, self.checks
        numbers = [operation["id"] for operation in self.operations]
        checks.equal(f"{len(numbers)} operations, numbered from 1", numbers, list(range(1, len(numbers) + 1)))
        checks.equal(f"{len(self.run)} ops in schedule order", list(self.number), [op.id for op in self.run])
        others = {o["name"] for o in self.operations if o["id"] not in set(self.number.values())}
        checks.equal("the others deallocate", others - {"ttnn.deallocate"}, set())
        stated = {op.id: p.time_ns for op in self.run if (p := records[op.id].predicted) is not None}
        found = {op: round(self.by_number[self.number[op]]["duration"] * 1e9) for op in stated}
        checks.equal("durations are the predicted ones", found, stated)
        detail = self.get(f"operations/{self.number[self.run[0].id]}")
        checks.equal("one operation by itself", detail["name"], self.by_number[self.number[self.run[0].id]]["name"])

    def tensors(self) -> None:
        result, checks = self.result, self.checks
        made: dict[str, Record] = {}
        for op in self.run:
            outputs = self.by_number[self.number[op.id]]["outputs"]
            made |= dict(zip(op.outputs, sorted(outputs, key=lambda o: o["output_index"]), strict=True))
        wanted = {v: f"Shape({list(result.graph.value(v).shape)})" for v in made}
        checks.equal(f"{len(made)} results have their shapes", {v: t["shape"] for v, t in made.items()}, wanted)
        kinds = {BufferType.DRAM: DRAM, BufferType.L1: L1, BufferType.HOST: None}
        places = {v: kinds[result.layouts[v].memory.buffer_type] for v in made}
        checks.equal("they lie in L1 or DRAM as planned", {v: t["buffer_type"] for v, t in made.items()}, places)
        top = result.device.worker_l1_bytes - result.options.l1_small_bytes
        placed = {v: top - depth for p in self.positions.values() for v, depth in p.memory.placed}
        checks.equal(f"{len(placed)} L1 addresses", {v: made[v]["address"] for v in placed}, placed)
        sharded = {v: list(s.shape) for v in made if (s := result.layouts[v].shard_spec) is not None}
        shown = {v: (made[v]["memory_config"] or {}).get("shard_spec") for v in sharded}
        shapes = {v: spec["shape"] if isinstance(spec, dict) else spec for v, spec in shown.items()}
        checks.equal(f"{len(sharded)} shard shapes are understood", shapes, sharded)
        listed = {t["id"]: t for t in self.get("tensors")}
        reads = {
            v: [self.number[op.id] for op in self.run for x in op.inputs if x == v]
            + [o["id"] for o in self.operations if o["name"] == "ttnn.deallocate" and o["inputs"][0]["id"] == t["id"]]
            for v, t in made.items()
        }
        consumers = {v: sorted(set(listed[t["id"]]["consumers"])) for v, t in made.items()}
        checks.equal("consumers", consumers, {v: sorted(set(numbers)) for v, numbers in reads.items()})
        producers = {v: sorted(set(listed[t["id"]]["producers"])) for v, t in made.items()}
        makers = {v: [self.number[op.id]] for op in self.run for v in op.outputs}
        checks.equal("producers", producers, makers)

    def device(self) -> None:
        device, found = self.result.device, self.get("devices")
        rows, columns = device.grid_yx
        wanted = (device.worker_l1_bytes, rows, columns, device.cb_base_bytes)
        names = ("worker_l1_size", "num_y_compute_cores", "num_x_compute_cores", "address_at_first_l1_cb_buffer")
        self.checks.equal(
            "one device: L1, grid, where circular buffers begin", [[d[n] for n in names] for d in found], [list(wanted)]
        )

    def buffers(self) -> None:
        """L1 before every op, which is L1 after the operation before it."""
        unit = self.result.device.l1_buffer_alignment_bytes
        after = {row["id"]: row["buffers"] for row in self.get("operation-buffers")}
        wrong = []
        for op in self.run:
            if op.id not in self.positions or self.number[op.id] == 1:
                continue
            before = [b for b in after[self.number[op.id] - 1] if b["buffer_type"] == L1]
            items = [item for item in self.positions[op.id].items if item.kind in ("weight", "tensor")]
            found = sorted((round_up(b["size"], unit), b["buffer_layout"]) for b in before)
            wanted = sorted((i.size_bytes, LAYOUTS[self.result.layouts[i.value].memory_layout.value]) for i in items)
            if found != wanted:
                wrong.append((op.id, found, wanted))
        self.checks.none(f"L1 buffers before {len(self.positions)} ops as in the timeline: bytes and layout", wrong)
        for kind, name in ((L1, "L1"), (DRAM, "DRAM")):
            overlaps = [number for number, rows in after.items() if _overlap(_spans(rows, kind))]
            self.checks.none(f"no two buffers of an operation overlap in {name}", overlaps)
        ends = max(
            (b["address"] + b["size"] for rows in after.values() for b in rows if b["buffer_type"] == L1), default=0
        )
        top = self.result.device.worker_l1_bytes - self.result.options.l1_small_bytes
        self.checks.equal("L1 buffers end below the small buffers", ends <= top, True)

    def within(self) -> None:
        """Circular buffers, and the peak of each op, added up as the viewer's page does.

        A convolution or pool has index tensors besides, which are in L1_SMALL, and which no page of a plan shows.
        """
        circular, peaks = [], []
        unit = self.result.device.l1_buffer_alignment_bytes
        for op in self.run:
            if op.id not in self.positions or self.result.records[op.id].role is Role.VIEW:
                continue
            memory = self.positions[op.id].memory
            levels = list(_levels(self.by_number[self.number[op.id]]["device_operations"]))
            programs = [cb for (before, _), (cb, _) in pairwise(levels) if cb > before]
            largest, together = max(programs, default=0), sum(programs)
            if not largest <= memory.cb_bytes <= together:  # kinds of buffers peak apart, and their peaks are added
                circular.append((op.id, programs, memory.cb_bytes))
            index_bytes = self.result.options.l1_small_bytes if "kernel_size" in op.attrs else 0
            rounded = unit * len(levels)
            peak = max(cb + buffers for cb, buffers in levels)
            if not memory.own_peak_bytes - index_bytes <= peak <= memory.own_peak_bytes + rounded:
                peaks.append((op.id, peak, memory.own_peak_bytes))
        self.checks.none("circular buffers of every op are those of the verifier", circular)
        self.checks.none("with results and temporaries they peak where the verifier says", peaks)

    def cores(self) -> None:
        rows, columns = self.result.device.grid_yx
        sizes: dict[tuple[int, int], int] = {}
        for row in self.get("operation-buffers"):
            sizes |= {(row["id"], b["address"]): b["size"] for b in row["buffers"] if b["buffer_type"] == L1}
        wrong, seen = [], set()
        for part in self.get("buffer-pages", buffer_type=L1):
            key = (part["operation_id"], part["address"])
            seen.add(key)
            if not (part["core_x"] < columns and part["core_y"] < rows and 0 < part["chunk_size"] <= sizes.get(key, 0)):
                wrong.append(part)
        self.checks.none(f"{len(seen)} buffers core by core, inside the grid and their bytes", wrong)
        self.checks.equal("every L1 buffer is there core by core", len(set(sizes) - seen), 0)

    def title(self) -> None:
        config, metadata = self.get("config"), self.get("report-metadata")
        self.checks.equal("PREDICTED stands in its name", "PREDICTED" in json.dumps(config), True)
        self.checks.equal("and in its metadata", "PREDICTED" in json.dumps(metadata), True)


def _spans(rows: Sequence[Record], kind: int) -> list[tuple[int, int]]:
    return sorted((b["address"], b["address"] + b["size"]) for b in rows if b["buffer_type"] == kind)


def _overlap(spans: Sequence[tuple[int, int]]) -> bool:
    return any(end > start for (_, end), (start, _) in pairwise(spans))


def _levels(nodes: Sequence[Record]) -> Iterator[tuple[int, int]]:
    """Bytes of circular buffers and of buffers after every node, as the page's memory report adds them up."""
    circular, buffers = 0, 0
    for node in nodes:
        params = node["params"]
        if node["node_type"] == "circular_buffer_allocate":
            circular += int(params["size"])
        elif node["node_type"] == "circular_buffer_deallocate_all":
            circular = 0
        elif node["node_type"] == "buffer_allocate":
            buffers += int(params["size"]) // int(params["num_cores"])
        elif node["node_type"] == "buffer_deallocate":
            buffers -= int(params["size"]) // int(params["num_cores"])
        yield circular, buffers
