"""What every test may use: golden files and one reproducible hypothesis profile; and the parts of the tests."""

from __future__ import annotations

import difflib
import importlib.util
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import hypothesis
import pytest

from optimizer.ir.making import check_graph
from optimizer.ir.watching import watched
from optimizer.opmodel.ttmetal import environment, simulator
from tests import costs
from tests.samples import PART, SOLVED_BEFORE

ROOT = Path(__file__).resolve().parent.parent
SHOWN_LINES = 30
"""Of the difference from a golden file."""
GOLDEN = Path(__file__).resolve().parent / "golden"

hypothesis.settings.register_profile(
    "project", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("project")


PARTS = pytest.StashKey[dict[str, int]]()
"""Of the tests collected: how many run here (`chosen`), are marked `slow` and `long`, and are `properties`."""
SECONDS = pytest.StashKey[dict[str, float]]()
"""What the tests of every file took."""
PART_NAMES = {
    "quick": "tests without the slow part",
    "slow": "slow part",
    "long": "long part",
}


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="write the golden files instead of comparing")
    for name, what in (
        ("slow", "the slow part: tests marked slow, and properties with half of their examples"),
        ("long", "the long part: tests marked long, and properties with all of their examples"),
    ):
        parser.addoption(f"--{name}", dest="part", action="store_const", const=name, default="quick", help=what)


def pytest_configure(config: pytest.Config) -> None:
    """Tests neither read nor fill the user's answer cache."""
    os.environ["TTOPT_ANSWER_CACHE"] = "off"
    os.environ[PART] = config.getoption("part")
    config.stash[PARTS] = {}
    config.stash[SECONDS] = {}
    config.pluginmanager.register(Stopwatch(config.stash[SECONDS]))
    for name, about in costs.markers().items():
        config.addinivalue_line("markers", f"{name}: {about} (tests/costs.py)")
    if not hasattr(config, "workerinput"):
        os.environ[SOLVED_BEFORE] = tempfile.mkdtemp(prefix="ttopt-solved-")


def pytest_unconfigure(config: pytest.Config) -> None:
    """What workers shared goes with the process that started them."""
    if not hasattr(config, "workerinput"):
        shutil.rmtree(os.environ.pop(SOLVED_BEFORE), ignore_errors=True)


def pytest_itemcollected(item: pytest.Item) -> None:
    """Marks what the test costs."""
    path = item.path.relative_to(ROOT).as_posix()
    found = costs.of_test(path, costs.text_of(item.path), getattr(item, "fixturenames", ()))
    for name in [cost.name for cost in found] or [costs.PURE]:
        item.add_marker(name)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leaves out the other parts, after hypothesis has marked its properties."""
    everything = set(items)
    long = {item for item in items if item.get_closest_marker("long")}
    slow = {item for item in items if item.get_closest_marker("slow")} - long
    properties = {item for item in items if item.get_closest_marker("hypothesis")} - slow - long
    parts = {
        "quick": everything - slow - long,
        "slow": slow | properties,
        "long": long | properties,
    }
    chosen = parts[config.getoption("part")]
    config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
    items[:] = [item for item in items if item in chosen]
    config.stash[PARTS] = {
        "chosen": len(chosen), "slow": len(slow), "properties": len(properties), "long": len(long)
    }  # fmt: skip
    if importlib.util.find_spec("ttnn") is None:
        missing = pytest.mark.skip(reason="ttnn is not installed (extra `ttmetal`)")
        for item in items:
            if "needs_ttnn" in getattr(item, "fixturenames", ()):
                item.add_marker(missing)


class Stopwatch:
    """Adds up what the tests of every file take, in the process that reports."""

    def __init__(self, seconds: dict[str, float]) -> None:
        self._seconds = seconds

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        path = report.nodeid.partition("::")[0]
        self._seconds[path] = round(self._seconds.get(path, 0.0) + report.duration, 2)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    """A worker tells the process that reports, which keeps what whole files took."""
    config = session.config
    if hasattr(config, "workeroutput"):
        config.workeroutput["parts"] = config.stash[PARTS]
    elif exitstatus == pytest.ExitCode.OK and config.cache is not None and _runs_whole_files(config):
        kept = config.cache.get(costs.SECONDS_KEPT, {})
        config.cache.set(costs.SECONDS_KEPT, costs.taken_together(kept, config.stash[SECONDS]))


def _runs_whole_files(config: pytest.Config) -> bool:
    chosen = config.option.keyword or config.option.markexpr or any("::" in word for word in config.args)
    return config.getoption("part") == "quick" and not chosen


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Every worker collects all tests, so each says the same."""
    node.config.stash[PARTS] = getattr(node, "workeroutput", {}).get("parts", {})


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """How many tests this part has and the others, and how to run those."""
    parts = config.stash[PARTS]
    if parts:
        part = PART_NAMES[config.getoption("part")]
        slow = f"{parts['slow']} slow tests and {parts['properties']} properties with half of their examples"
        rest = f"`make test-slow` runs {slow}, `make check-long` {parts['long']} long tests and all examples"
        terminalreporter.write_line(f"{part}: {parts['chosen']}; {rest}")


@pytest.fixture(scope="session")
def needs_ttnn() -> None:
    """Tests that ask for this are skipped without ttnn."""


@pytest.fixture(scope="session")
def needs_simulator(needs_ttnn: None) -> None:
    """Skip unless the user names a simulator for Wormhole and tt-metal's kernel compiler (docs/values.md)."""
    try:
        found = simulator.architecture(simulator.library_path())
        simulator.compiler_folder(environment.wheel_folder())
    except environment.EnvironmentProblem as problem:
        pytest.skip(str(problem))
    if found != "wormhole_b0":
        pytest.skip(f"the simulator named is for {found}")


@pytest.fixture(scope="module")
def remembered_answers() -> Iterator[None]:
    """The analytical OpModel answers from memory what any test of this process has asked it before."""
    from tests.plans import remembering

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("optimizer.opmodel.analytical.model.AnalyticalOpModel", remembering)
        yield


@pytest.fixture(autouse=True, scope="session")
def checked_graphs() -> Iterator[None]:
    """After each import pass and each stage of a run every op gives what its row says of its operands."""
    with watched(lambda _name, graph, _layouts: check_graph(graph)):
        yield


@pytest.fixture(scope="session")
def fixtures() -> Path:
    """The folder of real graphs without weights."""
    return ROOT / "fixtures" / "onnx"


@pytest.fixture
def project_root() -> Path:
    """The folder of the checkout."""
    return ROOT


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Callable[[str, str], None]:
    """`golden("room/name.json", text)` compares text with `tests/golden/room/name.json`."""
    update = request.config.getoption("--update-golden")

    def compare(name: str, text: str) -> None:
        path = GOLDEN / name
        if update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
        assert path.is_file(), f"no golden file {path.relative_to(ROOT)}: make it with --update-golden and review it"
        wanted = path.read_text(encoding="utf-8")
        if text != wanted:
            lines = list(
                difflib.unified_diff(wanted.splitlines(), text.splitlines(), "golden", "now", lineterm="", n=1)
            )
            pytest.fail("\n".join([f"differs from {path.relative_to(ROOT)}:", *lines[:SHOWN_LINES]]), pytrace=False)

    return compare


@pytest.fixture(scope="session")
def mlp_onnx(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer perceptron of 256 rows as an ONNX file; layers `fc1`, `act`, `fc2`."""
    import numpy as np
    import onnx
    from onnx import TensorProto, helper, numpy_helper

    weights = [numpy_helper.from_array(np.ones((512, 512), np.float32), name) for name in ("w1", "w2")]
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["h"], name="fc1"),
        helper.make_node("Relu", ["h"], ["a"], name="act"),
        helper.make_node("MatMul", ["a", "w2"], ["y"], name="fc2"),
    ]
    interface = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [256, 512]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "mlp", interface[:1], interface[1:], weights)
    path = tmp_path_factory.mktemp("models") / "mlp.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path
