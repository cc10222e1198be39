"""ONNX's own node tests: whatever of them is taken computes what the test expects."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from node_tests import class_of
from onnx.backend.test.case.node import collect_testcases

AT_LEAST_RIGHT = 900


@pytest.mark.slow
def test_no_case_is_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = {case.name: class_of(case) for case in collect_testcases(None)}

    assert {name: text for name, text in found.items() if text.startswith("wrong")} == {}
    assert Counter(text.partition(":")[0] for text in found.values())["right"] >= AT_LEAST_RIGHT
