"""A real headless Chromium, and pages in it that may neither complain nor ask the network for anything."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from optimizer.export.report import render
from optimizer.options import Options
from optimizer.result import OptimizedGraph
from tests.browser.chromium import chromium
from tests.plans import planned_file

ROOT = Path(__file__).resolve().parent.parent.parent
DESKTOP, PHONE = (1440, 900), (360, 740)
PATIENCE_MS = 15_000
ARGUMENTS = ("--no-sandbox", "--disable-dev-shm-usage")
"""The pages are ours; a sandbox of its own, and much shared memory, are more than containers give a browser."""

OpenPage = Callable[..., Any]


@pytest.fixture(scope="module")
def browser(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One per module, with the module's `FLAGS`: while it runs, no other event loop can in this thread."""
    api = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    path = chromium()
    if path is None:
        pytest.skip("no Chromium here (scripts/chromium.sh installs Debian's)")
    with api.sync_playwright() as driver:
        flags = getattr(request.module, "FLAGS", ())
        started = driver.chromium.launch(executable_path=path, args=[*ARGUMENTS, *flags])
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any) -> Iterator[OpenPage]:
    """`open_page(address, size, **context)`: a page that has loaded. At the end none has complained."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def opened(address: str, size: tuple[int, int] = DESKTOP, **options: Any) -> Any:
        context = browser.new_context(viewport={"width": size[0], "height": size[1]}, **options)
        contexts.append(context)
        context.set_default_timeout(PATIENCE_MS)
        page = context.new_page()
        page.on("console", lambda message: message.type in ("error", "warning") and complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.goto(address)
        return page

    yield opened
    # What is still loading when its window is closed may say so.
    found = list(complaints)
    for context in contexts:
        context.close()
    assert found == []


@pytest.fixture(scope="session")
def attention() -> OptimizedGraph:
    """A plan with views, residents, copies and weights in L1."""
    return planned_file(ROOT / "fixtures/graphs/attention.json", Options(policy="global"))


@pytest.fixture(scope="session")
def report(attention: OptimizedGraph, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return saved(attention, tmp_path_factory.mktemp("report"))


def saved(result: OptimizedGraph, folder: Path) -> Path:
    """The report of a result as a file."""
    path = folder / "report.html"
    path.write_text(render(result), encoding="ascii")
    return path
