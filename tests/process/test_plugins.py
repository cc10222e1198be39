"""What another distribution adds through every entry-point group, from a package outside of this repository."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onnx
import pytest
from onnx import TensorProto, helper

from optimizer.errors import PluginError, StateError
from optimizer.process.plugins import Catalogue, plugin_failure

CODE = '''
"""Everything in DRAM, as a plugin."""
from dataclasses import replace
from optimizer.families.elementwise import unary as accepted
from optimizer.importers import Format, load
from optimizer.ir.opdef import CostClass
from optimizer.ir.row_forms import unary
from optimizer.opmodel.analytical.model import AnalyticalOpModel
from optimizer.sharding.dram import DramPolicy

class Careful(DramPolicy):
    """Nothing in L1, to be on the safe side.

    Not shown.
    """
    name = "careful"

class Broken:
    """Raises something."""
    name = "broken"
    def run(self, problem):
        return problem.what_is_this

def doubled(device, l1_small_bytes):
    """The analytical answers under another name."""
    model = AnalyticalOpModel(device, l1_small_bytes)
    model.name = "doubled"
    return model

def write_nothing(result, folder):
    raise ZeroDivisionError

def write_count(result, folder):
    """How many ops there are."""
    folder.mkdir(exist_ok=True)
    (folder / "count.txt").write_text(str(len(result.graph)))
    return folder / "count.txt"

LINES = Format("lines", (".lines",), "acme.code", begins=(b"LINES",))

def read(data, options):
    """A chain of ops, one name a line."""
    first, *names = data.decode().split()
    values = {"x": {"shape": [1, 1, 256, 256], "dtype": "bf16", "kind": "input"}}
    ops, last = [], "x"
    for number, name in enumerate(names):
        ops.append({"id": f"op{number}", "op": f"ttnn.{name}", "inputs": [last], "outputs": [f"v{number}"]})
        last = f"v{number}"
    import json
    document = {"model": {"name": "lines", "inputs": ["x"], "outputs": [last]}, "values": values, "ops": ops}
    return load(json.dumps(document).encode())

ROWS = {row.name: row for row in unary("softcap")}
OPS = {"com.acme.Softcap": lambda node: node.emit("softcap", node.x(0)), "com.acme.Bad": lambda node: [][1]}
CALLS = {"ttnn.softcap": lambda site: site.call("15.0")}
FAMILIES = {"ttnn.softcap": accepted.unary}
'''

POINTS = """
[ttopt.policies]
careful = acme.code:Careful
broken = acme.code:Broken
[ttopt.opmodels]
doubled = acme.code:doubled
absent = acme.nowhere:model
[ttopt.emitters]
count = acme.code:write_count
nothing = acme.code:write_nothing
[ttopt.importers]
lines = acme.code:LINES
[ttopt.ops]
acme = acme.code
"""

DRIVER = """
import contextlib, io, json, sys
from optimizer.cli import main
answers = []
for command in json.loads(sys.argv[1]):
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        status = main(command)
    answers.append([status, out.getvalue(), err.getvalue()])
print(json.dumps(answers))
"""


@dataclass(frozen=True)
class Outside:
    """A folder with the package `acme` and models of its kinds."""

    folder: Path

    def run(self, *commands: list[Any]) -> list[tuple[int, str, str]]:
        """Exit code, stdout and stderr of each command, in a process that has the package installed."""
        path = f"{self.folder}{os.pathsep}{Path(__file__).resolve().parents[2]}"
        given = json.dumps([[str(word) for word in command] for command in commands])
        done = subprocess.run(
            [sys.executable, "-c", DRIVER, given], capture_output=True, text=True, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": path}, check=True,
        )  # fmt: skip
        return [tuple(answer) for answer in json.loads(done.stdout)]


@pytest.fixture(scope="module")
def outside(tmp_path_factory: pytest.TempPathFactory) -> Outside:
    folder = tmp_path_factory.mktemp("outside")
    (folder / "acme").mkdir()
    (folder / "acme" / "__init__.py").touch()
    (folder / "acme" / "code.py").write_text(CODE, encoding="utf-8")
    about = folder / "acme_ttopt-1.0.dist-info"
    about.mkdir()
    (about / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-ttopt\nVersion: 1.0\n", encoding="utf-8")
    (about / "entry_points.txt").write_text(POINTS, encoding="utf-8")
    (folder / "three.lines").write_text("LINES relu softcap relu", encoding="utf-8")
    for name in ("Softcap", "Bad"):
        onnx.save(custom(name), folder / f"{name}.onnx")
    return Outside(folder)


def custom(op_type: str) -> onnx.ModelProto:
    """A model of one op of a vendor's domain."""
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, 64, 64]) for name in "xy")
    node = helper.make_node(op_type, ["x"], ["y"], domain="com.acme", name="cap")
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.acme", 1)]
    return helper.make_model(helper.make_graph([node], "custom", [x], [y]), opset_imports=opsets)


@pytest.mark.slow
def test_every_group_adds_what_its_room_takes(outside: Outside) -> None:
    lists, emitters, lines, emitted, kept = outside.run(
        ["policies"],
        ["emitters"],
        ["optimize", "three.lines", "--policy", "careful", "--opmodel", "doubled", "--emit", "count"],
        ["optimize", "Softcap.onnx", "--emit", "ttnn-py", "--policy", "dfsharding"],
        ["batch", ".", "-o", "out", "--policy", "careful"],
    )
    assert "careful      Nothing in L1, to be on the safe side.\n" in lists[1]
    assert "count           How many ops there are.\n" in emitters[1]
    assert lines[0] == 0
    assert "plan of policy careful" in lines[1]
    assert (outside.folder / "three.ttopt" / "count.txt").read_text(encoding="utf-8") == "3"
    assert emitted[0] == 0
    assert "ttnn.softcap(" in (outside.folder / "Softcap.ttopt" / "model_ttnn.py").read_text(encoding="utf-8")
    assert (outside.folder / "out" / "three" / "graph.json").exists(), kept


@pytest.mark.slow
def test_a_plugin_that_fails_is_named(outside: Outside) -> None:
    policy, op, emitter, absent, unknown = outside.run(
        ["optimize", "three.lines", "--policy", "broken"],
        ["inspect", "Bad.onnx"],
        ["optimize", "three.lines", "--policy", "careful", "--emit", "nothing"],
        ["optimize", "three.lines", "--opmodel", "absent"],
        ["optimize", "three.lines", "--policy", "carefull"],
    )
    assert policy[0] == op[0] == emitter[0] == absent[0] == 1
    assert "plugin 'nothing' (ttopt.emitters of acme-ttopt 1.0) failed in acme.code, line " in emitter[2]
    assert emitter[2].endswith(": ZeroDivisionError\n")
    assert "plugin 'broken' (ttopt.policies of acme-ttopt 1.0) failed in acme.code, line " in policy[2]
    assert "AttributeError: 'PolicyInput' object has no attribute 'what_is_this'" in policy[2]
    assert "plugin 'acme' (ttopt.ops of acme-ttopt 1.0) failed in acme.code, line " in op[2]
    assert "plugin 'absent' (ttopt.opmodels of acme-ttopt 1.0) cannot be loaded: ModuleNotFoundError" in absent[2]
    assert unknown[0] == 2
    assert "unknown policy 'carefull', did you mean 'careful'?" in unknown[2]


def test_a_result_of_a_policy_that_is_not_installed_is_checked_all_the_same(outside: Outside) -> None:
    outside.run(["optimize", "three.lines", "--policy", "careful", "-o", "kept"])
    document = json.loads((outside.folder / "kept" / "graph.json").read_text(encoding="utf-8"))
    document["ops"] = [{**op, "op": op["op"].replace("softcap", "relu6")} for op in document["ops"]]
    (outside.folder / "kept" / "graph.json").write_text(json.dumps(document), encoding="utf-8")
    from optimizer.export.reader import read_result

    assert read_result(outside.folder / "kept").options.policy == "careful"


def test_a_name_stands_for_one_thing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    from importlib.metadata import EntryPoint

    point = EntryPoint("dram", "acme.code:Careful", "ttopt.policies")
    monkeypatch.setattr("optimizer.process.plugins.published", lambda _group: (point,))
    own = Catalogue("policy", "ttopt.policies", {"dram": ("optimizer.sharding.dram:DramPolicy", "all in DRAM")})
    with pytest.raises(StateError, match=r"policy 'dram' is registered twice: .*DramPolicy and acme.code:Careful"):
        own.names()


def test_our_own_exceptions_are_nobodys_plugin() -> None:
    try:
        _ = {}["x"]
    except KeyError as error:
        found: PluginError | None = plugin_failure(error)
    assert found is None
