"""The web page's files are all there, and nothing of the page is in its markup."""

from __future__ import annotations

import re

from api.web.files import PAGE, security_policy, web_files
from optimizer.export.report.assets import script_source, style_source


def test_every_file_that_is_asked_for_is_served() -> None:
    files = {name: file.content.decode() for name, file in web_files().items()}
    asked = set(re.findall(r'(?:src|href)="web/([\w.]+)"', files[PAGE]))
    imported = {name for text in files.values() for name in re.findall(r'^import .* from "\./([\w.]+)";$', text, re.M)}
    assert asked | imported == set(files) - {PAGE}


def test_the_page_runs_nothing_inline_and_asks_no_other_host() -> None:
    page = web_files()[PAGE].content.decode()
    assert not re.search(r'<style|<script(?! type="module" src=)|\son\w+=|\sstyle=|https?:', page)


def test_the_policy_admits_the_report_in_a_frame_and_nothing_inline_else() -> None:
    policy = dict(part.strip().split(" ", 1) for part in security_policy().split(";"))
    assert policy["script-src"] == f"'self' {script_source()}"
    assert policy["style-src"] == f"'self' {style_source()}"
    assert policy["frame-src"] == "blob:"
    assert policy["default-src"] == policy["frame-ancestors"] == "'none'"


def test_media_types_are_named() -> None:
    kinds = {name.rpartition(".")[2]: file.media_type.partition(";")[0] for name, file in web_files().items()}
    assert kinds == {"html": "text/html", "css": "text/css", "js": "text/javascript"}
