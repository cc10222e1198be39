"""Names of models become folders of their own, inside the output, whatever they are."""

from __future__ import annotations

import os
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from optimizer.batch.names import LONGEST_BYTES, folder_names


@pytest.mark.parametrize(
    ("wanted", "names"),
    [
        (["a", "a", "a-2", "a"], ["a", "a-2", "a-2-2", "a-3"]),
        (["A", "a"], ["A", "a-2"]),
        (["caf\u00e9", "cafe\u0301"], ["caf\u00e9", "cafe\u0301-2"]),
        (["..", ".", "", ".ttopt-job-x"], ["_.", "_", "_-2", "_ttopt-job-x"]),
        (["results.json", "Results.SQLite"], ["results.json-2", "Results.SQLite-2"]),
        (["a/b", "a_b", "a\nb"], ["a_b", "a_b-2", "a_b-3"]),
    ],
)
def test_names_are_tamed_and_numbered(wanted: list[str], names: list[str]) -> None:
    assert folder_names(wanted) == names


def test_long_names_are_cut_and_stay_different() -> None:
    first, second = folder_names(["\u00e9" * 300 + "a", "\u00e9" * 300 + "b"])
    assert first != second
    assert max(len(os.fsencode(name)) for name in (first, second)) <= LONGEST_BYTES
    assert first.startswith("\u00e9" * 80)


@given(st.lists(st.text(st.characters(exclude_categories=["Cs"]), max_size=300), max_size=20))
def test_every_name_is_a_folder_of_its_own(wanted: list[str]) -> None:
    names = folder_names(wanted)
    assert len({unicodedata.normalize("NFC", name).casefold() for name in names}) == len(wanted)
    for name in names:
        assert name == os.path.basename(name)
        assert not name.startswith(".")
        assert "\0" not in name
        assert len(os.fsencode(name)) <= 255
