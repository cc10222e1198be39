"""The pictures of `docs/images`, taken by `make screenshots`: no part of the tests."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from PIL import Image
from service_process import Service

from optimizer.export.report import render
from optimizer.options import Options
from optimizer.pipeline import optimize_file
from tests.browser.conftest import DESKTOP, ROOT, OpenPage

FOLDER = ROOT / "docs/images"
MODELS = {"resnet50": "resnet50_b1_legacy17", "llama_2_layers": "llama32_1b_2l_dynamo20"}
LONG, LONG_BOARDS = "clip_b32_dynamo20", {"": "n150", "_phone": "p150"}
"""A search that can be watched, and where it is not known yet."""
PATIENCE_MS = 120_000
PHONE = (360, 780)
COLOURS, FREQUENT = 256, 192


@pytest.fixture(scope="module")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("reports")
    for name, model in MODELS.items():
        result = optimize_file(ROOT / f"fixtures/onnx/{model}.onnx", Options())
        (folder / f"{name}.html").write_text(render(result), encoding="ascii")
    return {name: folder / f"{name}.html" for name in MODELS}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("service"), workers=1) as running:
        yield running


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
    """The picture in its most frequent colours and those farthest from them; others become the nearest of these."""
    colours, at, counts = np.unique(shown.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    found = colours.astype(np.int32)
    kept = list(np.argsort(-counts, kind="stable")[:FREQUENT])
    apart = ((found[:, None] - found[kept][None]) ** 2).sum(axis=2)
    for _ in range(min(COLOURS, len(found)) - len(kept)):
        kept.append(apart.min(axis=1).argmax())
        apart = np.c_[apart, ((found - found[kept[-1]]) ** 2).sum(axis=1)]
    made = Image.fromarray(apart.argmin(axis=1).astype(np.uint8)[at].reshape(shown.shape[:2]), "P")
    made.putpalette(colours[kept].tobytes())
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


@pytest.mark.parametrize(("suffix", "size"), [("", (1440, 1000)), ("_phone", PHONE)])
def test_page(open_page: OpenPage, service: Service, suffix: str, size: tuple[int, int]) -> None:
    """A real service; a model that is new to it is watched for a while."""
    page = open_page(service.url, size)
    page.set_default_timeout(PATIENCE_MS)
    page.locator("#board option").first.wait_for(state="attached")
    page.locator("#board").select_option(LONG_BOARDS[suffix])
    send(page, LONG)
    page.locator(".live dd", has_text="%").wait_for()
    take(page, f"page_running{suffix}")
    page.locator("#board").select_option("n150")
    for name, model in MODELS.items():
        send(page, model)
        page.frame_locator("iframe").locator("header", has_text=model).first.wait_for()
        take(page, f"page_{name}{suffix}")


def send(page: Any, model: str) -> None:
    page.locator("#file").set_input_files(ROOT / f"fixtures/onnx/{model}.onnx")
    page.locator("#send").click()
