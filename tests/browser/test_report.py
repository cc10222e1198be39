"""`report.html` in a browser: it shows what the plan says, and everything can be reached by pointer and by keys."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from optimizer.options import Options
from optimizer.result import OptimizedGraph
from optimizer.wording.units import bytes_text, percent_text, time_text
from tests.browser.conftest import DESKTOP, PHONE, ROOT, OpenPage, saved
from tests.export.report.made_results import MadeResult
from tests.plans import planned_file

VIEW = "() => [...document.querySelectorAll('#graph')].map(c => c.toDataURL()).join()"
SIZES = [0, 1, 512, 1023, 1024, 1536, 133120, 642464, 1292516, 16777216, 1072693184, 5 * 2**30, 1.5, 2.5]
TIMES = [0, 1, 999, 1000, 66412, 1219558, 999999.5, 4391162000]
SHARES = [0, 0.0625, 0.497, 0.00125, 0.99949, 1, 2.5]


@pytest.fixture
def page(open_page: OpenPage, report: Path) -> Any:
    return open_page(report.as_uri())


def picture(page: Any) -> str:
    """What the graph's canvas shows once it is drawn."""
    page.evaluate("() => new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")
    found: str = page.evaluate(VIEW)
    return found


def panel_title(page: Any) -> str:
    title: str = page.locator("#panel h2").inner_text()
    return title


def test_it_asks_the_network_for_nothing(open_page: OpenPage, browser: Any, report: Path) -> None:
    asked: list[str] = []
    page = open_page("about:blank")
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    page.locator("#ops tbody tr").first.wait_for()
    assert [url for url in asked if not url.startswith(("data:", report.as_uri()))] == []


def test_the_head_says_what_the_command_says(page: Any, attention: OptimizedGraph) -> None:
    summary = attention.summary
    tiles = page.locator("#tiles").inner_text()
    assert time_text(summary.predicted_time_ns) in tiles
    assert time_text(summary.baselines.dram_ns) in tiles
    assert bytes_text(summary.l1_peak_bytes) in tiles
    assert bytes_text(summary.dram_read_bytes_total) in tiles
    plan = page.locator("#plan").inner_text()
    assert plan.startswith(f"on n150: verified plan of policy global, status {summary.status}")


def test_units_are_written_as_the_command_writes_them(open_page: OpenPage, report: Path, project_root: Path) -> None:
    source = (project_root / "optimizer/export/report/page/units.js").read_text(encoding="utf-8")
    page = open_page("about:blank")
    page.evaluate(
        re.sub(r"^export ", "", source, flags=re.MULTILINE)
        + "Object.assign(window, {bytesText, timeText, percentText})"
    )
    for function, ours, cases in (
        ("bytesText", bytes_text, SIZES),
        ("timeText", time_text, TIMES),
        ("percentText", percent_text, SHARES),
    ):
        shown = page.evaluate(f"cases => cases.map(c => {function}(c))", cases)
        assert shown == [ours(case) for case in cases]
    assert page.evaluate("() => [bytesText(null), timeText(undefined), percentText(null)]") == ["-", "-", "-"]


def test_search_lists_ops_and_opens_one(page: Any, attention: OptimizedGraph) -> None:
    before = picture(page)
    page.locator("#search").fill("norm")
    listed = page.locator("#found li[role=option]")
    named = [op for op in attention.graph.ops() if "norm" in f"{op.id} {op.name} {op.op}"]
    assert listed.count() == len(named) > 0
    assert page.locator("#found > :not([role=option], [aria-hidden=true])").count() == 0
    assert picture(page) != before
    assert page.locator("#ops tbody tr").count() == len(named)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    assert "norm" in page.locator("#panel").inner_text()
    page.locator("#search").fill("no such op")
    assert page.locator("#found [role=option]").inner_text() == "0 ops"


def test_an_op_says_why(page: Any, attention: OptimizedGraph) -> None:
    slowest = max(attention.records.values(), key=lambda r: r.predicted.time_ns if r.predicted else 0)
    page.locator("#ops tbody tr button").first.click()
    text = page.locator("#panel").inner_text()
    assert slowest.predicted is not None
    assert str(slowest.reason["chosen"]) in text
    assert all(row["layout"] in text for row in slowest.reason.get("alternatives", []))
    assert f"{time_text(slowest.predicted.time_ns)} on {slowest.predicted.cores} cores" in text
    assert f"bound by {slowest.predicted.bound}" in text
    page.keyboard.press("Escape")
    assert page.locator("#panel").is_hidden()
    assert page.evaluate("() => document.activeElement.closest('tr') !== null")


def test_a_click_on_a_node_opens_its_op(page: Any) -> None:
    data = json.loads(page.locator("#data").text_content())
    graph = data["graph"]
    at, x, y, width, height = next(node for node in graph["nodes"] if node[0] == "op")[1:]
    canvas = page.locator("#graph")
    canvas.scroll_into_view_if_needed()
    box = canvas.bounding_box()
    scale = min(box["width"] / graph["width"], box["height"] / graph["height"], 1.25)
    left = (box["width"] - graph["width"] * scale) / 2 + (x + width / 2) * scale
    top = (box["height"] - graph["height"] * scale) / 2 + (y + height / 2) * scale
    canvas.click(position={"x": left, "y": top})
    assert panel_title(page) == data["ops"][at]["kind"]


def test_keys_walk_through_the_graph_and_zoom_it(page: Any, attention: OptimizedGraph) -> None:
    page.locator("#graph").focus()
    start = picture(page)
    page.keyboard.press("ArrowRight")
    first = page.locator("#graph-says").text_content()
    assert page.locator("#panel").is_hidden()
    page.keyboard.press("ArrowRight")
    assert page.locator("#graph-says").text_content() != first
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    walked = panel_title(page)
    page.locator("#graph").focus()
    page.keyboard.press("ArrowUp")
    assert page.locator("#graph-says").text_content() != ""
    page.keyboard.press("Escape")
    page.keyboard.press("0")
    assert picture(page) == start
    page.keyboard.press("+")
    nearer = picture(page)
    assert nearer != start
    page.keyboard.press("Shift+ArrowLeft")
    assert picture(page) != nearer
    assert walked


def test_the_pointer_moves_and_zooms_the_graph(page: Any) -> None:
    canvas = page.locator("#graph")
    canvas.scroll_into_view_if_needed()
    page.wait_for_timeout(400)
    box = canvas.bounding_box()
    start = picture(page)
    middle = (box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    page.mouse.move(*middle)
    page.mouse.wheel(0, -300)
    zoomed = picture(page)
    assert zoomed != start
    page.mouse.down()
    page.mouse.move(middle[0] + 80, middle[1] + 40, steps=4)
    page.mouse.up()
    page.mouse.move(box["x"] + 3, box["y"] + 3)
    assert picture(page) not in (zoomed, start)
    page.locator("#zoom-fit").click()
    assert picture(page) == start


def test_two_fingers_zoom_the_graph(open_page: OpenPage, report: Path) -> None:
    page = open_page(report.as_uri(), PHONE, has_touch=True)
    before = picture(page)
    page.evaluate("""() => {
        const canvas = document.getElementById("graph");
        canvas.setPointerCapture = () => {};
        const tell = (type, id, x, y) => canvas.dispatchEvent(new PointerEvent(type, {
            pointerId: id, pointerType: "touch", clientX: canvas.getBoundingClientRect().left + x,
            clientY: canvas.getBoundingClientRect().top + y, bubbles: true }));
        tell("pointerdown", 1, 100, 100); tell("pointerdown", 2, 140, 100);
        tell("pointermove", 2, 220, 100); tell("pointerup", 1, 100, 100); tell("pointerup", 2, 220, 100);
    }""")
    assert picture(page) != before


def test_the_wheel_scrolls_the_page_where_the_graph_is_whole(page: Any) -> None:
    box = page.locator("#graph").bounding_box()
    page.mouse.move(box["x"] + 200, box["y"] + 100)
    page.mouse.wheel(0, 300)
    page.wait_for_function("() => window.scrollY > 100")


def test_the_legend_keeps_one_placement_bright(page: Any) -> None:
    before = picture(page)
    button = page.locator("#legend button").first
    button.click()
    assert button.get_attribute("aria-pressed") == "true"
    assert picture(page) != before
    button.click()
    page.mouse.move(5, 5)
    assert picture(page) == before


def test_the_l1_chart_tells_of_every_step(page: Any, attention: OptimizedGraph) -> None:
    slider = page.locator("#memory [role=slider]")
    peak = attention.summary.l1_peak_bytes
    assert slider.get_attribute("aria-valuetext").endswith(
        f"{bytes_text(peak)} of {bytes_text(attention.summary.l1_limit_bytes)}"
    )
    slider.focus()
    page.keyboard.press("Home")
    first = slider.get_attribute("aria-valuetext")
    page.keyboard.press("ArrowRight")
    assert slider.get_attribute("aria-valuetext") != first
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    page.keyboard.press("Escape")
    slider.click(position={"x": 5, "y": 20})
    assert page.locator("#panel").is_visible()


def test_ops_are_sorted_by_any_column(page: Any, attention: OptimizedGraph) -> None:
    head = page.locator("#ops th", has_text="time")
    assert head.get_attribute("aria-sort") == "descending"
    times = [r.predicted.time_ns for r in attention.records.values() if r.predicted is not None]
    assert page.locator("#ops tbody tr").first.locator("td").nth(3).inner_text() == time_text(max(times))
    head.locator("button").click()
    assert head.get_attribute("aria-sort") == "ascending"
    page.locator("#ops th", has_text="op").first.locator("button").click()
    kinds = page.locator("#ops tbody td.op button").all_inner_texts()
    assert kinds == sorted(kinds)


def test_what_colours_mean_is_said_for_both(page: Any, attention: OptimizedGraph) -> None:
    before = picture(page)
    assert page.locator("#legend button").count() > 1
    page.locator("#colour").select_option("time")
    slowest = max(r.predicted.time_ns for r in attention.records.values() if r.predicted is not None)
    assert page.locator("#legend .entry").first.inner_text().split("\n") == ["0 ns", time_text(slowest)]
    assert page.locator("#legend button").count() == 0
    assert picture(page) != before


def test_a_plan_like_the_one_in_dram_is_neither_better_nor_worse(open_page: OpenPage, tmp_path: Path) -> None:
    plain = planned_file(ROOT / "fixtures/graphs/mlp.json", Options(policy="dram"))
    page = open_page(saved(plain, tmp_path).as_uri())
    assert page.locator("#tiles small").first.inner_text() == "+0.0 %"
    assert page.locator("#tiles :is(.better, .worse)").count() == 0


def test_a_table_of_ops_fits_a_phone(open_page: OpenPage, report: Path, attention: OptimizedGraph) -> None:
    assert any(len(op.op) > 25 for op in attention.graph.ops())
    page = open_page(report.as_uri(), PHONE)
    assert page.evaluate(WIDE) == []


def test_what_is_pressed_is_large_enough_for_a_finger(open_page: OpenPage, report: Path) -> None:
    page = open_page(report.as_uri(), PHONE)
    page.locator("#ops tbody tr button").first.click()
    assert page.evaluate(LOW) == []
    tools = page.locator(".tools button, .panel-head button")
    assert min(tool.bounding_box()["width"] for tool in tools.all()) >= 40


def test_a_link_opens_an_op(open_page: OpenPage, report: Path, attention: OptimizedGraph) -> None:
    op = list(attention.graph.ops())[-1]
    page = open_page(f"{report.as_uri()}#op={op.id}")
    assert op.id in page.locator("#panel").inner_text()


@pytest.mark.parametrize("size", [PHONE, (768, 1024), DESKTOP])
def test_nothing_sticks_out_sideways(open_page: OpenPage, report: Path, size: tuple[int, int]) -> None:
    page = open_page(report.as_uri(), size)
    assert page.evaluate("() => document.documentElement.scrollWidth") == size[0]
    page.locator("#ops tbody tr button").first.click()
    assert page.locator("#panel").is_visible()
    assert page.evaluate("() => document.documentElement.scrollWidth") <= size[0]


def test_it_is_dark_where_the_reader_is(open_page: OpenPage, report: Path) -> None:
    shades = {}
    for scheme in ("light", "dark"):
        page = open_page(report.as_uri(), color_scheme=scheme)
        ground = page.evaluate("() => getComputedStyle(document.body).backgroundColor")
        shades[scheme] = (sum(map(int, re.findall(r"\d+", ground))), picture(page))
    assert shades["light"][0] > 600 > 120 > shades["dark"][0]
    assert shades["light"][1] != shades["dark"][1]


WIDE = """() => [...document.querySelectorAll("#ops .scroll, .differences .scroll, td.op")]
    .filter(e => e.scrollWidth > e.clientWidth + 1)
    .map(e => e.outerHTML)"""
LOW = """() => [...document.querySelectorAll("button, select, input")]
    .filter(e => e.checkVisibility() && e.getBoundingClientRect().height < 24)
    .map(e => e.outerHTML)"""
USED = "a, button, input, select, canvas, [role=slider], [role=group], aside, nav"
UNNAMED = f"""() => [...document.querySelectorAll({USED!r})]
    .filter(e => e.checkVisibility() && !e.ariaLabel && !e.labels?.length && !e.textContent.trim())
    .filter(e => !e.hasAttribute("aria-labelledby"))
    .map(e => e.outerHTML)"""
UNREACHABLE = """() => [...document.querySelectorAll(".scroll")]
    .filter(e => e.scrollWidth > e.clientWidth && e.tabIndex < 0 && !e.querySelector("button, a"))
    .map(e => e.outerHTML)"""


def test_everything_that_can_be_used_has_a_name_and_the_keyboard_reaches_it(page: Any) -> None:
    page.locator("#ops tbody tr button").first.click()
    assert page.evaluate(UNNAMED) == []
    assert page.evaluate(UNREACHABLE) == []
    page.keyboard.press("Escape")
    page.evaluate("() => document.activeElement.blur()")
    reached = []
    for _ in range(30):
        page.keyboard.press("Tab")
        reached.append(page.evaluate("() => document.activeElement.id || document.activeElement.className"))
    assert {"skip", "search", "graph", "zoom-in", "slider"} <= set(reached)


@pytest.mark.slow
def test_two_thousand_ops_are_there_at_once(open_page: OpenPage, tmp_path: Path) -> None:
    path = saved(MadeResult(2000).result(), tmp_path)
    page = open_page(path.as_uri())
    page.locator("#ops tbody tr").first.wait_for()
    spent = page.evaluate("() => performance.getEntriesByType('navigation')[0].loadEventEnd")
    assert 0 < spent < 2000
    frame = page.evaluate("""() => new Promise(done => {
        const began = performance.now();
        document.getElementById("zoom-in").click();
        requestAnimationFrame(() => requestAnimationFrame(() => done(performance.now() - began)));
    })""")
    assert frame < 500
    page.locator("#ops .more").click()
    assert page.locator("#ops tbody tr").count() == 275
    assert page.locator("#ops .more").inner_text() == "Show 250 more of 2,000 ops"
    page.locator("#search").fill("op_1999")
    page.keyboard.press("Enter")
    assert "op_1999" in page.locator("#panel").inner_text()
