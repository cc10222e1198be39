"""The page at `/`: a model is dropped, watched, read and downloaded; keys and problems are dealt with."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from optimizer.export.report import render
from optimizer.result import OptimizedGraph
from tests.browser.conftest import DESKTOP, PATIENCE_MS, PHONE, OpenPage
from tests.browser.stand_in import SCRIPT, StandIn, serving

MODEL = {"name": "tiny.onnx", "mimeType": "application/octet-stream", "buffer": b"a model"}


@pytest.fixture
def service(attention: OptimizedGraph) -> Iterator[StandIn]:
    with serving(StandIn(render(attention))) as state:
        yield state


@pytest.fixture
def page(open_page: OpenPage, service: StandIn) -> Any:
    return open_page(service.address)


@pytest.fixture
def complaining(browser: Any) -> Iterator[Any]:
    """A page that may complain, as a browser does of every refusal."""
    context = browser.new_context()
    context.set_default_timeout(PATIENCE_MS)
    yield context.new_page()
    context.close()


def send(page: Any, model: dict[str, Any] = MODEL) -> None:
    page.locator("#file").set_input_files(model)
    page.locator("#send").click()


def report_of(page: Any) -> Any:
    page.locator("iframe.report-frame").wait_for()
    return page.frame_locator("iframe.report-frame")


def test_a_model_becomes_a_report(page: Any, service: StandIn) -> None:
    page.locator("#board").select_option("p150")
    page.locator("#policy").select_option("dram")
    assert page.locator("#policy-says").inner_text() == "plans by dram"
    page.locator("#host-ops").check()
    assert page.locator("#send").is_disabled()
    send(page)
    report = report_of(page)
    assert report.locator("#title").inner_text() == "attention"
    report.locator("#ops tbody tr button").first.click()
    assert report.locator("#panel").is_visible()
    (job,) = service.jobs.values()
    assert (job.name, job.board, job.policy, job.on_host) == ("tiny", "p150", "dram", "true")
    assert page.locator("#job .tag").inner_text() == "succeeded"
    assert page.locator("#jobs li").count() == 1


def test_progress_is_seen_as_it_happens(page: Any, service: StandIn) -> None:
    service.holds = True
    send(page)
    page.get_by_text("waiting for a worker").wait_for()
    (job,) = service.jobs
    service.advance(job, 2)
    page.locator("#job [role=status]", has_text="policy 60.0 %").wait_for()
    service.advance(job, 2)
    page.locator("#job dd", has_text="1.500 ms").wait_for()
    assert "running for" in page.locator("#job").inner_text()
    assert page.locator("#job dl.figures").inner_text().split("\n") == [
        "best plan",
        "1.500 ms",
        "bound",
        "900.000 us",
        "gap",
        "40.0 %",
    ]
    service.advance(job, 1)
    page.locator("#job dd", has_text="8.3 %").wait_for()
    assert page.locator("#job svg.plot path.best").get_attribute("d").startswith("M0 ")
    assert page.locator("#job svg.plot path.proved").get_attribute("d").startswith("M1 ")
    assert page.title() == "tiny: running - ttopt"
    service.advance(job, len(SCRIPT))
    report_of(page)


def test_the_links_of_a_report_work_in_its_frame(page: Any) -> None:
    """Without an origin of its own a frame may not follow them."""
    send(page)
    report_of(page).locator(".links a", has_text="Figures").click()
    frame = next(frame for frame in page.frames if frame != page.main_frame)
    frame.wait_for_function("() => window.scrollY > 200")
    assert frame.evaluate("() => document.activeElement.id") == "figures-section"


def test_going_back_leaves_the_job(page: Any) -> None:
    page.locator("#board option").first.wait_for(state="attached")
    send(page)
    report_of(page).locator("#title").wait_for()
    page.go_back()
    page.get_by_text("Nothing is chosen").wait_for()
    assert page.title() == "ttopt"
    assert page.locator("#jobs li.chosen").count() == 0
    page.go_forward()
    report_of(page).locator("#title").wait_for()


def test_a_service_that_goes_while_a_job_runs_is_told(complaining: Any, attention: OptimizedGraph) -> None:
    page = complaining
    with serving(StandIn(render(attention), holds=True)) as service:
        page.goto(service.address)
        send(page)
        page.get_by_text("waiting for a worker").wait_for()
        service.drops = True
        service.advance(next(iter(service.jobs)), 1)
    page.locator("#job [role=status]", has_text="no connection, trying again").wait_for()


def test_a_lost_connection_is_taken_up_where_it_was(page: Any, service: StandIn) -> None:
    service.holds = service.drops = True
    send(page)
    (job,) = wait_for_jobs(page, service)
    service.advance(job, 1)
    page.locator("#job [role=status]", has_text="import").wait_for()
    service.advance(job, 1)
    page.locator("#job [role=status]", has_text="policy").wait_for()
    service.drops = False
    service.advance(job, len(SCRIPT))
    report_of(page)
    assert service.resumed[:2] == ["", "1"]
    assert service.resumed[-1] == "2"


def wait_for_jobs(page: Any, service: StandIn) -> list[str]:
    page.locator("#job h2").wait_for()
    return list(service.jobs)


def test_a_job_is_cancelled(page: Any, service: StandIn) -> None:
    service.holds = True
    send(page)
    page.locator("#job button", has_text="Cancel").click()
    page.locator("#job .tag", has_text="cancelled").wait_for()
    assert [job.state for job in service.jobs.values()] == ["cancelled"]
    assert page.locator("#job button", has_text="Cancel").count() == 0


def test_a_refusal_says_what_why_and_what_instead(complaining: Any, service: StandIn) -> None:
    page = complaining
    page.goto(service.address)
    send(page, {**MODEL, "buffer": b"bad"})
    problem = page.locator("#form-problem .problem")
    problem.wait_for()
    lines = [line for line in problem.inner_text().split("\n") if line]
    assert lines[:2] == ["Unprocessable Content", "node 'fc1' has 40000 nodes <b>around</b> it"]
    assert lines[2:] == [
        "place",
        "fc1",
        "limit",
        "20000",
        "one of",
        "a smaller model, TTOPT_MAX_NODES",
        "code",
        "too-large",
    ]


def test_artifacts_are_downloaded(page: Any, tmp_path: Path) -> None:
    send(page)
    page.get_by_role("button", name="Download ttnn-py").wait_for()
    with page.expect_download() as started:
        page.get_by_role("button", name="Download ttnn-py").click()
    assert started.value.suggested_filename == "model_ttnn.py"
    started.value.save_as(tmp_path / "program")
    assert (tmp_path / "program").read_text() == "print('a program')\n"
    with page.expect_download() as started:
        page.get_by_role("button", name="Download json").click()
    assert started.value.suggested_filename == "tiny.json"


def test_the_frame_of_a_report_has_nothing_of_the_page(page: Any, service: StandIn) -> None:
    send(page)
    report_of(page).locator("#title").wait_for()
    frame = next(frame for frame in page.frames if frame != page.main_frame)
    assert frame.evaluate("() => window.origin") == "null"
    assert (
        frame.evaluate("() => { try { return String(sessionStorage.length); } catch (error) { return error.name; } }")
        == "SecurityError"
    )
    assert (
        frame.evaluate("() => { try { return parent.document.title; } catch (error) { return error.name; } }")
        == "SecurityError"
    )


def test_jobs_are_listed_and_opened_again(page: Any, service: StandIn) -> None:
    for number in range(30):
        service.submit(f"model {number}", "n150", "global")
    page.locator("#refresh").click()
    page.locator("#jobs li", has_text="model 29").wait_for()
    assert page.locator("#jobs li").count() == 25
    page.locator("#jobs-more").click()
    page.locator("#jobs li", has_text="model 4").first.wait_for()
    assert page.locator("#jobs li").count() == 30
    assert page.locator("#jobs-more").is_hidden()
    page.locator("#jobs button", has_text="model 7").click()
    page.locator("#job h2", has_text="model 7").wait_for()
    page.reload()
    page.locator("#job h2", has_text="model 7").wait_for()


def test_a_model_can_be_dropped(page: Any, service: StandIn) -> None:
    page.locator("#board option").first.wait_for(state="attached")
    page.evaluate("""() => {
        const carried = new DataTransfer();
        carried.items.add(new File(["a model"], "dropped.json"));
        for (const type of ["dragenter", "drop"]) {
            const told = new DragEvent(type, { dataTransfer: carried, bubbles: true, cancelable: true });
            document.getElementById("drop").dispatchEvent(told);
        }
    }""")
    assert "dropped.json, 7 B" in page.locator("#file-name").inner_text()
    page.locator("#send").click()
    page.locator("#job h2", has_text="dropped").wait_for()


def test_more_than_one_file_is_told(page: Any) -> None:
    page.locator("#board option").first.wait_for(state="attached")
    page.evaluate("""() => {
        const carried = new DataTransfer();
        for (const name of ["a.onnx", "b.onnx"]) carried.items.add(new File(["a model"], name));
        const told = new DragEvent("drop", { dataTransfer: carried, bubbles: true, cancelable: true });
        document.getElementById("drop").dispatchEvent(told);
    }""")
    assert "One model at a time" in page.locator("#form-problem").inner_text()
    assert page.locator("#send").is_disabled()


@pytest.mark.parametrize("size", [PHONE, DESKTOP])
def test_nothing_sticks_out_sideways(open_page: OpenPage, service: StandIn, size: tuple[int, int]) -> None:
    service.submit("x" * 300, "n150", "global")
    page = open_page(service.address, size)
    page.locator("#jobs button").first.click()
    report_of(page)
    assert page.evaluate("() => document.documentElement.scrollWidth") == size[0]


def test_a_key_is_asked_for_and_sent_along(complaining: Any, attention: OptimizedGraph) -> None:
    page = complaining
    with serving(StandIn(render(attention), key="right")) as service:
        page.goto(service.address)
        page.locator("#key").fill("wrong")
        page.keyboard.press("Enter")
        page.locator("#key-problem", has_text="the service wants an API key").wait_for()
        page.locator("#key").fill("right")
        page.keyboard.press("Enter")
        page.locator("#board option", has_text="p150").wait_for(state="attached")
        assert page.locator("#key-dialog").is_hidden()
        send(page)
        report_of(page).locator("#title").wait_for()
        page.reload()
        page.locator("#jobs li", has_text="tiny").wait_for()
        assert page.locator("#key-dialog").is_hidden()
        assert page.evaluate("() => [localStorage.length, document.cookie]") == [0, ""]


def test_a_service_that_is_gone_is_told(complaining: Any, attention: OptimizedGraph) -> None:
    page = complaining
    with serving(StandIn(render(attention))) as service:
        page.goto(service.address)
        page.locator("#board option").first.wait_for(state="attached")
    send(page)
    page.locator("#form-problem", has_text="The service does not answer").wait_for()
    assert page.locator("#send").is_enabled()
