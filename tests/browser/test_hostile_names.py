"""Whatever a model calls its ops, the report shows it as text and nothing else happens."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import PHONE, OpenPage, saved
from tests.export.report.made_results import MadeResult
from tests.samples import sampled

NAMES = {
    "script": '</script><script>window.broken = 1</script><img src=x onerror="window.broken = 1">',
    "quotes": "\"'`${window.broken = 1}`'\" onclick=window.broken=1 javascript:window.broken=1 &lt;b&gt; {{1}}",
    "comment": "<!-- <script> --> ]]> </style></textarea></title><svg onload=window.broken=1>",
    "unicode": "\u2028\u2029 \U0001f9ff e\u0301 \ufeff \u0000 \u001b[31m \ud800 \uffff \u7b97\u5b50",
    "right-to-left": "\u202e\u05d0\u05d1\u05d2\u202c \u0645\u0631\u062d\u0628\u0627 \u2067abc",
    "long": "x" * 10_000,
    "paths": "/" * 300 + "a//b/../../c" + "\\" * 50,
    "blank": " ",
    "prototype": "__proto__",
}


@pytest.mark.parametrize("case", sampled(NAMES, ["script", "unicode", "right-to-left", "long"]))
def test_names_are_inert(open_page: OpenPage, tmp_path: Path, case: str) -> None:
    path = saved(MadeResult(30, lambda at: f"{NAMES[case]}{at}").result(), tmp_path)
    page = open_page(path.as_uri(), PHONE)
    look_around(page)
    assert page.evaluate("() => window.broken") is None
    assert page.evaluate("() => document.querySelectorAll('script').length") == 2
    assert page.evaluate("() => document.querySelectorAll('img, svg[onload], b b').length") == 0
    assert page.evaluate("() => document.documentElement.scrollWidth") == PHONE[0]


def look_around(page: Any) -> None:
    """Open everything that shows names."""
    page.locator("#search").fill("2")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#panel").is_visible()
    page.keyboard.press("Escape")
    page.locator("#search").fill("")
    page.locator("#ops .more").click()
    assert page.locator("#ops tbody tr").count() == 30
    page.locator("#memory [role=slider]").focus()
    page.keyboard.press("End")
    box = page.locator("#graph").bounding_box()
    page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)


def test_a_name_is_shown_as_it_is(open_page: OpenPage, tmp_path: Path) -> None:
    path = saved(MadeResult(10, lambda at: f"{NAMES['script']}{at}").result(), tmp_path)
    page = open_page(path.as_uri())
    assert page.locator("#title").text_content() == f"{NAMES['script']}0"
    page.locator("#ops tbody tr button").first.click()
    assert page.locator("#panel .name-text").first.text_content() == f"{NAMES['script']}0"


def test_what_gets_into_the_page_all_the_same_does_not_run(browser: Any, tmp_path: Path) -> None:
    """The policy, not only the escapes: a script put into the file by hand is refused."""
    path = saved(MadeResult(3).result(), tmp_path)
    text = path.read_text(encoding="ascii")
    path.write_text(
        text.replace("<main>", "<main><script>window.broken = 1</script><p onclick='window.broken = 2' id='bad'>x</p>")
    )
    context = browser.new_context()
    page = context.new_page()
    refused: list[str] = []
    page.on("console", lambda message: refused.append(message.text))
    page.goto(path.as_uri())
    page.locator("#bad").click()
    assert page.evaluate("() => window.broken") is None
    assert any("Content Security Policy" in text for text in refused)
    context.close()
