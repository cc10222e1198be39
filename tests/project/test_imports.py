"""What the package shows, and what importing it costs."""

from __future__ import annotations

import subprocess
import sys
import tempfile

import optimizer

HEAVY = (
    "ortools",
    "onnx",
    "onnx_ir",
    "onnxscript",
    "fastapi",
    "starlette",
    "uvicorn",
    "pydantic",
    "networkx",
    "ttnn",
    "sympy",
)


def modules_after(code: str) -> set[str]:
    """Top-level modules loaded in a fresh interpreter that ran `code`."""
    script = f"import sys\n{code}\nprint(*sorted({{name.partition('.')[0] for name in sys.modules}}))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(done.stdout.split())


def test_importing_the_package_loads_no_third_party_library() -> None:
    loaded = modules_after("import optimizer; from optimizer import DeviceSpec, Graph, Options")
    assert "optimizer" in loaded
    assert loaded.isdisjoint(HEAVY)


def test_the_command_starts_without_heavy_libraries() -> None:
    loaded = modules_after("import optimizer.cli\nassert optimizer.cli.main(['boards', '--format', 'json']) == 0")
    assert loaded.isdisjoint(HEAVY)


def test_public_names() -> None:
    assert sorted(optimizer.__all__) == [
        "DeviceSpec",
        "Graph",
        "GraphBuilder",
        "OptimizedGraph",
        "Options",
        "TtoptError",
        "emit",
        "load",
        "optimize",
    ]


def test_public_names_resolve_to_their_homes() -> None:
    for name in optimizer.__all__:
        assert getattr(optimizer, name).__name__ == name


def test_an_unknown_name_is_an_attribute_error() -> None:
    assert not hasattr(optimizer, "optimise")


def test_the_default_policy_loads_the_solver_but_not_pandas() -> None:
    """OR-tools' own modelling layer would: loading it takes longer than most networks take to solve."""
    loaded = modules_after("import optimizer.sharding.whole_graph.global_policy")
    assert "ortools" in loaded
    assert "pandas" not in loaded


def test_a_graph_is_optimized_without_the_front_end_for_onnx() -> None:
    """Which takes longer to load than a small graph to optimize; so do the programs that only an error budget runs."""
    with tempfile.TemporaryDirectory() as folder:
        words = ["optimize", "fixtures/graphs/mlp.json", "-o", folder]
        loaded = modules_after(
            f"import optimizer.cli\nassert optimizer.cli.main({words!r}) == 0\n"
            "assert 'optimizer.export.ttnn_py.run_model' not in sys.modules"
        )
    assert "ortools" in loaded
    assert loaded.isdisjoint({"onnx", "onnx_ir", "onnxscript", "sympy"})
