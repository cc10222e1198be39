"""What commands print."""

from __future__ import annotations

import json

from optimizer.cli.tables import as_json


def test_json_has_null_for_what_is_no_number() -> None:
    text = as_json({"pcc": float("nan"), "outputs": [{"ratio": float("inf")}, (1.5, -float("inf"))]})
    assert json.loads(text) == {"pcc": None, "outputs": [{"ratio": None}, [1.5, None]]}
