"""ONNX's own node tests: whatever of them is taken computes what the test expects."""

from __future__ import annotations

import warnings
from collections import Counter

import pytest
from node_tests import class_of, remedied
from onnx.backend.test.case.node import collect_testcases

AT_LEAST_RIGHT, AT_LEAST_REMEDIED = 900, 200


@pytest.mark.slow
def test_no_case_is_wrong() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in collect_testcases(None)}
        found = {name: class_of(case) for name, case in cases.items()}
        tried = {name: remedied(cases[name]) for name, text in found.items() if text.startswith("refused")}

    assert {name: text for name, text in (*found.items(), *tried.items()) if str(text).startswith("wrong")} == {}
    assert Counter(str(text).partition(":")[0] for text in tried.values())["right"] >= AT_LEAST_REMEDIED
    assert Counter(text.partition(":")[0] for text in found.values())["right"] >= AT_LEAST_RIGHT
