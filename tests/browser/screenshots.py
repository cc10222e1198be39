"""The pictures of `docs/images`, taken by `make screenshots`: no part of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image

from optimizer.export.report import render
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from tests.browser.conftest import DESKTOP, ROOT, OpenPage
from tests.browser.stand_in import StandIn, serving

FOLDER = ROOT / "docs/images"
MODELS = {"resnet50": "resnet50_b1_legacy17", "llama_2_layers": "llama32_1b_2l_dynamo20"}
PHONE = (360, 780)
COLOURS = 256


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for name, model in MODELS.items():
        result = optimize_file(ROOT / f"fixtures/onnx/{model}.onnx", Options())
        (folder / f"{name}.html").write_text(render(result), encoding="ascii")
    return {name: folder / f"{name}.html" for name in MODELS}


@pytest.fixture
def service(reports: dict[str, Path]) -> Iterator[StandIn]:
    with serving(StandIn(reports["resnet50"].read_text(encoding="ascii"))) as state:
        yield state


def take(page: Any, name: str) -> None:
    """A small picture of what the window shows."""
    page.wait_for_timeout(500)
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"{name}.png"
    page.screenshot(path=path)
    with Image.open(path) as whole:
        shown = np.asarray(whole.convert("RGB"))
    few_colours(shown).save(path, optimize=True)


def few_colours(shown: npt.NDArray[np.uint8]) -> Image.Image:
    """The picture in its most frequent colours, which stay as they are; others become the nearest of them."""
    colours, at, counts = np.unique(shown.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-counts, kind="stable")[:COLOURS]].astype(np.int32)
    apart = ((colours.astype(np.int32)[:, None] - kept[None]) ** 2).sum(axis=2)
    made = Image.fromarray(apart.argmin(axis=1).astype(np.uint8)[at].reshape(shown.shape[:2]), "P")
    made.putpalette(kept.astype(np.uint8).tobytes())
    return made


@pytest.mark.parametrize("model", MODELS)
def test_reports(open_page: OpenPage, reports: dict[str, Path], model: str) -> None:
    page = open_page(reports[model].as_uri(), (DESKTOP[0], 1060))
    take(page, f"report_{model}")
    page = open_page(reports[model].as_uri(), (DESKTOP[0], 1060), color_scheme="dark")
    page.locator("#ops tbody tr button").nth(4).click()
    page.locator(".links a", has_text="Graph").click()
    take(page, f"report_{model}_op")
    page = open_page(reports[model].as_uri(), PHONE, has_touch=True)
    page.locator(".links a", has_text="Graph").click()
    take(page, f"report_{model}_phone")


def test_l1_chart(open_page: OpenPage, reports: dict[str, Path]) -> None:
    page = open_page(reports["llama_2_layers"].as_uri(), (DESKTOP[0], 760))
    page.locator(".links a", has_text="L1").click()
    take(page, "report_l1")


@pytest.mark.parametrize(("name", "size"), [("page", (1440, 1000)), ("page_phone", PHONE)])
def test_page(open_page: OpenPage, service: StandIn, name: str, size: tuple[int, int]) -> None:
    page = open_page(service.address, size)
    service.submit("mobilenetv2", "n150", "global")
    service.submit("llama32_1b_2l", "p150", "global")
    page.locator("#refresh").click()
    service.holds = True
    page.locator("#board option").first.wait_for(state="attached")
    page.locator("#file").set_input_files({"name": "resnet50.onnx", "mimeType": "model/onnx", "buffer": b"model"})
    page.locator("#send").click()
    page.get_by_text("waiting for a worker").wait_for()
    service.advance(list(service.jobs)[-1], 5)
    take(page, f"{name}_running")
    service.advance(list(service.jobs)[-1], 9)
    page.frame_locator("iframe").locator("#ops tbody tr").first.wait_for()
    take(page, name)
