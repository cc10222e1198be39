"""tt-perf-report on our CSV, MiniMalloc's format, and the annotated ONNX model in onnx and Netron."""

from __future__ import annotations

import csv
import subprocess
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from urllib.parse import quote

import onnx

from optimizer.answers.timeline import timeline
from optimizer.export.perf_csv.programs import programs
from optimizer.result import OptimizedGraph, Role
from viewing.site import Checks, content, environment, free_port, server


def perf_report(result: OptimizedGraph, path: Path, environments: Path, scratch: Path, checks: Checks) -> None:
    place, output = environment(environments, "tt-perf-report", "1.4.1"), scratch / "perf.csv"
    finished = subprocess.run(
        [place / "tt-perf-report", path, "--no-color"], capture_output=True, text=True, check=False
    )
    checks.equal("it prints the whole report", (finished.returncode, finished.stderr), (0, ""))
    checks.equal("PREDICTED stands above it", "PREDICTED" in finished.stdout, True)
    command = [place / "tt-perf-report", path, "--csv", output, "--no-summary", "--raw-op-codes"]
    finished = subprocess.run(command, capture_output=True, text=True, check=False)
    checks.equal("it writes a CSV", (finished.returncode, finished.stderr), (0, ""))
    with output.open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    run = [op for op in result.graph.ops() if not result.graph.is_const_eval(op)]
    wanted = [program.name for op in run for program in programs(result, op)]
    hosted = sum(result.records[op.id].role is Role.HOST for op in run)
    device = [row for row in rows if row["Device Time"]]
    checks.equal(f"{len(wanted)} device operations in order", [row["Raw OP Code"] for row in device], wanted)
    checks.equal(f"{hosted} operations on the host", len(rows) - len(device), hosted)
    summary = result.summary_json()
    total = sum(float(row["Device Time"]) for row in device) * 1e3
    near = abs(total - summary["predicted_time_ns"]) <= len(device)  # each is rounded to a ns
    checks.equal(f"their times add up to {summary['predicted_time_ns']} ns, as predicted", near or total, True)


def minimalloc(result: OptimizedGraph, path: Path, checks: Checks) -> None:
    """Read as MiniMalloc does: lines split at commas, whole numbers, `upper` exclusive, the capacity in the name."""
    head, *lines = path.read_text(encoding="utf-8").split("\n")[:-1]
    checks.equal("columns", head, "id,lower,upper,size,offset")
    rows = [line.split(",") for line in lines]
    checks.equal(f"{len(rows)} lines of five fields", {len(row) for row in rows} - {5}, set())
    checks.equal("no id twice", len({row[0] for row in rows}), len(rows))
    found = [tuple(map(int, row[1:])) for row in rows]
    capacity = int(path.name.split(".")[-2])
    odd = [row for row in found if not (0 <= row[0] < row[1] and row[2] > 0 and 0 <= row[3] <= capacity - row[2])]
    checks.none("every buffer lives, and lies inside the capacity", odd)
    checks.none("no two buffers overlap in time and address", _clashes(found))
    peak = max(position.memory.total_bytes for position in timeline(result).positions)
    most = max(sum(size for a, b, size, _ in found if a <= at < b) for at, *_ in found)
    checks.equal(f"at most {most} B are there at once, of the plan's peak of {peak} B", most <= peak, True)


def _clashes(rows: Sequence[tuple[int, ...]]) -> list[tuple[int, ...]]:
    """A buffer that comes to life where another one lies."""
    found = []
    for at in sorted({row[0] for row in rows}):
        spans = sorted((offset, offset + size) for lower, upper, size, offset in rows if lower <= at < upper)
        found += [(at, *second) for first, second in pairwise(spans) if first[1] > second[0]]
    return found


def onnx_model(path: Path, environments: Path, scratch: Path, checks: Checks) -> None:
    model = onnx.load(path, load_external_data=False)
    _weights(model, path.parent)
    checks.equal("onnx.checker takes it", _refusal(path), "")
    again = scratch / "again.onnx"
    onnx.save(model, again)
    checks.equal("loaded and saved it is the same", again.read_bytes(), path.read_bytes())
    texts = [f"{p.key}={p.value}" for p in model.metadata_props]
    checks.equal("PREDICTED or predicted stands in its metadata", "predicted" in " ".join(texts).lower(), True)
    marked = sum(bool(node.metadata_props) for node in model.graph.node)
    checks.equal(f"{marked} of {len(model.graph.node)} nodes say what became of them", marked > 0, True)
    place, port = environment(environments, "netron", "9.3.3"), free_port()
    base = f"http://127.0.0.1:{port}"
    with server([place / "netron", "--host", "127.0.0.1", "--port", port, path], base, scratch / "netron.log", {}):
        served = content(f"{base}/data/{quote(path.name)}")
        checks.equal("Netron serves its page and the file", served == path.read_bytes(), True)


def _refusal(path: Path) -> str:
    try:
        onnx.checker.check_model(path)
    except onnx.checker.ValidationError as error:
        return str(error)
    return ""


def _weights(model: onnx.ModelProto, folder: Path) -> None:
    """Files of zeros for weights that a model keeps outside and that are not shipped with it."""
    for tensor in model.graph.initializer:
        outside = {entry.key: entry.value for entry in tensor.external_data}
        if outside:
            with (folder / outside["location"]).open("ab") as file:
                file.truncate(max(file.tell(), int(outside.get("offset", 0)) + int(outside["length"])))
