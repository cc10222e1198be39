"""Families of ops: every aspect of an op in one of them, in a folder or in one file."""

from __future__ import annotations

import sys
from types import ModuleType

import pytest

from optimizer import families
from optimizer.errors import StateError
from optimizer.ir.row_forms import by_name, unary
from optimizer.ir.vocabulary import op_names


@pytest.mark.parametrize("aspect", families.ASPECTS)
def test_the_aspects_of_an_op_stand_in_one_family(aspect: str) -> None:
    homes = {op: family for family in families.FAMILIES for op in families.aspect_of(family, "ROWS")}
    for family in families.FAMILIES:
        assert {homes.get(op, family) for op in families.aspect_of(family, aspect)} <= {family}


@pytest.mark.parametrize("aspect", ["CALLS", "RULES", "ADJOINTS", "EMULATIONS"])
def test_every_op_has_what_no_op_may_lack(aspect: str) -> None:
    assert set(op_names()) <= set(families.table(aspect))


def test_a_small_family_is_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    module = ModuleType("optimizer.families.tiny")
    monkeypatch.setattr(module, "ROWS", by_name(*unary("softcap")), raising=False)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    assert list(families.aspect_of("tiny", "ROWS")) == ["ttnn.softcap"]
    assert not families.aspect_of("tiny", "CALLS")


def test_an_op_stands_in_one_family(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(families, "FAMILIES", ("products", "products"))
    with pytest.raises(StateError, match=r"ROWS of 'ttnn\.matmul' stands in products and in another family"):
        families.table.__wrapped__("ROWS")


def test_an_op_has_one_row() -> None:
    with pytest.raises(StateError, match="two rows"):
        by_name(*unary("relu", "relu"))
