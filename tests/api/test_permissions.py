"""Every option is judged: may a stranger choose it?"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from api.permissions import COMPUTED_WITH, NAMES_A_FILE, RUNS_PROGRAMS, NotPermittedError, Permissions
from optimizer.errors import OptionError, UnknownNameError
from optimizer.options import Options


def test_every_option_stands_in_one_table() -> None:
    tables = [*COMPUTED_WITH, *NAMES_A_FILE, *RUNS_PROGRAMS]
    assert sorted(tables) == sorted(field.name for field in fields(Options))


@pytest.mark.parametrize("choice", [{"opmodel": "ttmetal"}, {"check": "ttmetal"}])
def test_programs_of_the_server_are_off_until_its_operator_allows_them(choice: dict[str, Any]) -> None:
    with pytest.raises(NotPermittedError, match="TTOPT_ALLOW_TTMETAL=1") as refused:
        Permissions().check(Options(**choice))
    assert (refused.value.http_status, refused.value.node) == (403, next(iter(choice)))
    Permissions(programs=True).check(Options(**choice))


def test_files_of_the_server_are_always_off() -> None:
    for permissions in (Permissions(), Permissions(programs=True)):
        with pytest.raises(OptionError, match="by name"):
            permissions.check(Options(board="/etc/board.json"))


def test_an_unknown_backend_is_told_as_such() -> None:
    with pytest.raises(UnknownNameError, match="ttmetl"):
        Permissions().check(Options(opmodel="ttmetl"))
