"""Results that exporters are tried on, each around one thing that may go wrong; none takes a second to make."""

from __future__ import annotations

from pathlib import Path

from optimizer.device import DeviceSpec
from optimizer.ir.builder import GraphBuilder
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.plans import planned, planned_file

GRAPHS = Path(__file__).resolve().parents[3] / "fixtures" / "graphs"
HOSTILE = "a,b\"c'; DROP TABLE operations; --\n{x}\\ é/=1+1"
N150 = DeviceSpec.preset("n150")


def _file(name: str, **options: object) -> OptimizedGraph:
    return planned_file(GRAPHS / f"{name}.json", Options.from_mapping({"policy": "global", **options}))


def _hostile() -> OptimizedGraph:
    b = GraphBuilder(HOSTILE)
    x = b.op("ttnn.relu", b.input("x" + HOSTILE, (1, 1, 64, 64)), name=HOSTILE)
    y = b.op("ttnn.add", x, b.parameter("w" + HOSTILE, (1, 1, 64, 64)), name=HOSTILE + "2")
    return planned(b.finish(y), N150, Options(policy="global"))


def _views() -> OptimizedGraph:
    """A reshape that is a view, between ops whose results are in L1."""
    b = GraphBuilder("views")
    x = b.op("ttnn.relu", b.input("x", (1, 1, 2048, 1024)), name="x0")
    y = b.op("ttnn.reshape", x, name="y", shape=(1, 2, 1024, 1024))
    z = b.op("ttnn.gelu", b.op("ttnn.exp", y, name="e"), name="z")
    return planned(b.finish(z), N150, Options(policy="global"))


RESULTS = {
    "attention": lambda: _file("attention"),
    "concat": lambda: _file("concat"),
    "convolution": lambda: _file("conv2d_relu"),
    "DRAM only": lambda: _file("mlp", policy="dram"),
    "fork": lambda: _file("fork"),
    "fused kernels": lambda: _file("fork", policy="dfsharding", fuse_kernels=True),
    "hostile names": _hostile,
    "host op": lambda: _file("opaque", allow_host_ops=True),
    "mlp": lambda: _file("mlp"),
    "pool": lambda: _file("pool_then_eltwise"),
    "views": _views,
}
"""Name -> a result."""
