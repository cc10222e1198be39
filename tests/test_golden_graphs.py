"""Golden annotated graphs: hand-made graphs, one per rule, through the whole pipeline.

`pytest --update-golden` writes them again; the diff is the review.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from optimizer.export.annotated_json import dumps
from optimizer.options import Options
from optimizer.pipeline import optimize_file

GRAPHS = Path(__file__).resolve().parent.parent / "fixtures" / "graphs"
NAMES = sorted(p.stem for p in GRAPHS.glob("*.json"))


def document(name: str, **options: object) -> dict[str, object]:
    result = optimize_file(GRAPHS / f"{name}.json", Options.from_mapping({"allow_host_ops": True, **options}))
    record: dict[str, object] = json.loads(dumps(result))
    record.pop("timings")
    return record


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("policy", ["dram", "dfsharding"])
def test_annotated_graph(name: str, policy: str, golden: Callable[[str, str], None]) -> None:
    text = json.dumps(document(name, policy=policy), indent=1) + "\n"
    golden(f"graphs/{name}.{policy}.json", text)


def test_the_documented_transformation() -> None:
    """conv2d -> relu from DRAM to DRAM: one sharded L1 chain on the whole grid, one spill, returned in DRAM."""
    record = document("conv2d_relu", policy="dfsharding")
    ops, values = record["ops"], record["values"]
    assert isinstance(ops, list)
    assert isinstance(values, dict)
    assert [(op["op"], op["role"]) for op in ops] == [
        ("ttnn.conv2d", "compute"),
        ("ttnn.relu", "compute"),
        ("ttnn.to_memory_config", "spill"),
    ]
    placed = [values[op["outputs"][0]]["layout"] for op in ops]
    assert [p["buffer_type"] for p in placed] == ["l1", "l1", "dram"]
    assert placed[0] == placed[1]
    assert placed[0]["grid_yx"] == [64, 1]
    assert placed[2]["memory_layout"] == "interleaved"
    assert ops[0]["config"]["shard_layout"] == placed[0]["memory_layout"]


def test_p150_uses_its_own_grid() -> None:
    record = document("mlp", board="p150", policy="dfsharding")
    values = record["values"]
    assert isinstance(values, dict)
    cores = [v["layout"]["core_ranges"] for v in values.values() if v["layout"]["core_ranges"]]
    assert cores
    assert max(x1 for ranges in cores for _, _, x1, _ in ranges) == 10
