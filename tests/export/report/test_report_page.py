"""The page is one safe file: nothing of a model is markup, nothing but its own script may run."""

from __future__ import annotations

import json
import re
import time
from itertools import pairwise
from pathlib import Path

import pytest

from optimizer.errors import LONGEST_NAME
from optimizer.export.registry import emit
from optimizer.export.report import FILE_NAME, render
from optimizer.export.report.assets import MODULES, STYLES, file_text, script, security_policy, source_hash, style
from optimizer.options import Options
from tests.export.report.made_results import MadeResult
from tests.plans import planned_file

SCRIPTS = re.compile(r"<script[^>]*>(.*?)</script>", re.DOTALL)
LARGEST = 1 << 20


@pytest.mark.parametrize(
    "name", ["</script><script>alert(1)</script>", "<!--<script>", "\u2028\ud800'\"&", "$policy ${x}"]
)
def test_names_are_data(name: str) -> None:
    page = render(MadeResult(20, lambda at: f"{name}{at}").result())
    assert page.isascii()
    data, code = SCRIPTS.findall(page)
    assert code == script()
    assert not re.search(r"[<>&]", data)
    assert {op["name"] for op in json.loads(data)["ops"]} == {f"{name}{at}" for at in range(20)}
    assert "<script>alert" not in page


def test_very_long_names_lose_their_middle() -> None:
    page = render(MadeResult(20, lambda at: f"{'x' * 10_000}{at}").result())
    data = json.loads(SCRIPTS.findall(page)[0])
    assert all(len(op["id"]) < LONGEST_NAME + 50 for op in data["ops"])
    assert len(page) < 600_000


def test_the_policy_names_the_script_and_style_that_are_there() -> None:
    page = render(MadeResult(3).result())
    policy = security_policy()
    assert source_hash(SCRIPTS.findall(page)[1]) in policy
    (css,) = re.findall(r"<style>(.*?)</style>", page, re.DOTALL)
    assert source_hash(css) in policy
    assert css == style()
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert not re.search(r'\s(style|on\w+)="', page.partition("<script")[0])


def test_nothing_is_loaded_from_anywhere() -> None:
    page = render(MadeResult(3).result())
    without = page.replace("http://www.w3.org/2000/svg", "")
    assert not re.search(r"https?:|//[a-z]+\.|@import|url\(", re.sub(r"^\s*//.*$", "", without, flags=re.MULTILINE))
    assert re.findall(r'\b(?:src|href)="([^"#][^"]*)"', page) == ["data:,"]


def test_modules_are_listed_after_those_they_import_from() -> None:
    known: set[str] = set()
    for name in MODULES:
        imported = re.findall(r'^import \{[^}]*\} from "\./([\w.]+)";$', file_text(name), re.MULTILINE)
        assert set(imported) <= known
        assert file_text(name).count("import ") == len(imported)
        known.add(name)
    assert not re.search(r"^\s*(import|export)\b", script(), re.MULTILINE)


def test_all_files_of_the_page_are_used(project_root: Path) -> None:
    folder = project_root / "optimizer/export/report/page"
    assert {path.name for path in folder.iterdir()} == {*MODULES, *STYLES, "template.html"}


def test_the_emitter_writes_it(tmp_path: Path) -> None:
    result = MadeResult(5).result()
    assert emit(result, "report", tmp_path) == tmp_path / FILE_NAME
    assert (tmp_path / FILE_NAME).read_text(encoding="ascii") == render(result)


def test_a_network_is_small_and_quick(project_root: Path) -> None:
    options = Options(policy="dram")
    result = planned_file(project_root / "fixtures/onnx/resnet50_b1_legacy17.onnx", options)
    render(result)
    began = time.process_time()
    page = render(result)
    assert time.process_time() - began < 1
    assert len(page) < LARGEST


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    bright, dim = sorted((luminance(one), luminance(other)), reverse=True)
    return (bright + 0.05) / (dim + 0.05)


def mixed(one: str, other: str, share: float) -> str:
    pairs = [(int(one[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(share * a + (1 - share) * b):02x}" for a, b in pairs)


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_texts_stand_out_from_what_they_are_on(theme: str) -> None:
    """The least contrast of WCAG 2 AA: 4.5 for texts, 3 for what the graph and the chart tell by colour."""
    blocks = [dict(re.findall(r"--([\w-]+): (#[0-9a-f]{6})", part)) for part in style().split(":root {")[1:]]
    plain, dark, coloured, coloured_dark = blocks
    colours = plain | coloured if theme == "light" else plain | dark | coloured | coloured_dark
    grounds = ("ground", "surface", "accent-soft")
    texts = {name: [colours[g] for g in grounds] for name in ("text", "muted", "accent")}
    texts |= {name: [colours[f"{name}-soft"], colours["surface"]] for name in ("good", "bad", "warn")}
    assert [n for n, on in texts.items() for g in on if contrast(colours[n], g) < 4.5] == []
    assert contrast(colours["on-accent"], colours["accent"]) >= 4.5
    places = ("dram", "l1_interleaved", "height_sharded", "width_sharded", "block_sharded", "host")
    bands = ("weight", "tensor", "result", "circular_buffers", "temporaries")
    assert [name for name in (*places, *bands) if contrast(colours[name], colours["surface"]) < 3] == []
    assert [pair for pair in pairwise(bands) if contrast(colours[pair[0]], colours[pair[1]]) < 1.25] == []
    hottest = mixed(colours["heat-high"], colours["heat-low"], 0.7)
    assert contrast(colours["text"], hottest) >= 4.5
