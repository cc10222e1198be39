"""The page at `/` of a real service: a model in, its report read and its plan downloaded."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_process import Service

from api.serving import key_store
from optimizer.cli import main
from tests.browser.conftest import PATIENCE_MS


@pytest.fixture
def service(browser: Any, tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, workers=1, settings={"TTOPT_KEYS": "always"}) as running:
        yield running


@pytest.mark.slow
def test_a_model_is_sent_watched_and_read(browser: Any, service: Service, mlp_onnx: Path, tmp_path: Path) -> None:
    with key_store(service.store) as keys:
        secret = keys.add("ann")
    # The browser complains of the answer that asks for a key.
    page = browser.new_context().new_page()
    page.set_default_timeout(2 * PATIENCE_MS)
    page.goto(service.url)
    page.locator("#key").fill(secret)
    page.keyboard.press("Enter")
    page.locator("#file").set_input_files(mlp_onnx)
    page.locator("#board").select_option("p150")
    page.locator("#send").click()
    page.locator("iframe.report-frame").wait_for()
    report = page.frame_locator("iframe.report-frame")
    assert "on p150" in report.locator("header").first.inner_text()
    report.locator("#ops tbody tr button").first.click()
    assert report.locator("#panel").is_visible()
    assert page.locator("#jobs li").count() == 1
    with page.expect_download() as download:
        page.get_by_role("button", name="Download json").click()
    download.value.save_as(tmp_path / "graph.json")
    graph: dict[str, Any] = json.loads((tmp_path / "graph.json").read_bytes())
    assert graph["device"]["name"] == "p150"
    assert main(["check", str(tmp_path / "graph.json"), "--model", str(mlp_onnx)]) == 0
