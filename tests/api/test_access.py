"""API keys: who needs one, what they allow, and that nothing of them is kept that could be stolen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import text
from starlette.requests import HTTPConnection

from api.access import ANONYMOUS, Gate, KeyStore
from api.jobs.database import Database
from api.problems import ForeignPageError, RateError, UnauthorizedError
from api.settings import Settings
from optimizer.cli import main
from optimizer.errors import OptionError


@pytest.fixture
def keys(store_url: str) -> Iterator[KeyStore]:
    database = Database(store_url)
    database.migrate()
    yield KeyStore(database)
    database.close()


def request(secret: str | None = None, peer: str = "10.0.0.9", **headers: str) -> HTTPConnection:
    given = {**headers, **({} if secret is None else {"authorization": f"Bearer {secret}"})}
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in given.items()]
    return HTTPConnection({"type": "http", "method": "GET", "headers": raw, "client": (peer, 1)})


def gate(store: KeyStore, **settings: object) -> Gate:
    made = Gate(Settings.model_validate(settings), store)
    made.refresh()
    return made


@pytest.mark.parametrize("is_revoked", [False, True])
def test_strangers_need_a_key_whether_or_not_there_is_one_left(keys: KeyStore, is_revoked: bool) -> None:
    with pytest.raises(UnauthorizedError, match="wants an API key"):
        gate(keys).admit(request())
    secret = keys.add("ann")
    assert gate(keys).admit(request(secret)).owner == "ann"
    if is_revoked:
        keys.revoke("ann")
    for word in (None, "ttopt_guess"):
        with pytest.raises(UnauthorizedError):
            gate(keys).admit(request(word))


@pytest.mark.parametrize(("peer", "headers", "is_let_in"), [
    ("127.0.0.1", {}, True), ("127.8.9.1", {}, True), ("::1", {}, True), ("::ffff:127.0.0.1", {}, True),
    ("10.0.0.9", {}, False), ("testclient", {}, False), ("", {}, False), ("::", {}, False), ("0.0.0.0", {}, False),
    ("127.0.0.1", {"x_forwarded_for": "127.0.0.1"}, False), ("127.0.0.1", {"forwarded": "for=10.0.0.9"}, False),
    ("127.0.0.1", {"x_real_ip": ""}, False), ("127.0.0.1", {"x_forwarded_proto": "https"}, False),
    ("10.0.0.9", {"x_forwarded_for": "127.0.0.1"}, False),
])  # fmt: skip
def test_this_machine_needs_no_key_unless_it_is_a_proxy(
    keys: KeyStore, peer: str, headers: dict[str, str], is_let_in: bool
) -> None:
    if is_let_in:
        assert gate(keys).admit(request(peer=peer, **headers)).owner == ANONYMOUS
    else:
        with pytest.raises(UnauthorizedError):
            gate(keys).admit(request(peer=peer, **headers))


def test_a_proxy_on_this_machine_is_not_this_machine(keys: KeyStore) -> None:
    with pytest.raises(UnauthorizedError):
        gate(keys, trusted_proxies="127.0.0.0/8").admit(request(peer="127.0.0.1"))


PROXY_HEADERS = ("x-forwarded-for", "forwarded", "x-real-ip", "via", "x-forwarded-host", "x-forwarded-proto")


@pytest.mark.parametrize("peer", ["127.0.0.1", "10.0.0.9"])
@pytest.mark.parametrize("extra", [None, *PROXY_HEADERS])
def test_whatever_a_page_sets_its_own_name_gets_it_nothing(keys: KeyStore, peer: str, extra: str | None) -> None:
    headers = {"host": "evil.example:8000", **({} if extra is None else {extra.replace("-", "_"): "127.0.0.1"})}
    for who in ("auto", "never"):
        with pytest.raises((ForeignPageError, UnauthorizedError)):
            gate(keys, keys=who).admit(request(peer=peer, **headers))
    with pytest.raises(ForeignPageError):
        gate(keys, keys="never").admit(request(peer=peer, **headers))


def test_a_key_counts_more_than_where_the_request_comes_from(keys: KeyStore) -> None:
    secret = keys.add("ann")
    headers = {"host": "ttopt.example", "sec_fetch_site": "cross-site"}
    assert gate(keys).admit(request(secret, peer="127.0.0.1", **headers)).owner == "ann"


def test_always_and_never(keys: KeyStore) -> None:
    with pytest.raises(UnauthorizedError):
        gate(keys, keys="always").admit(request(peer="127.0.0.1"))
    keys.add("ann")
    assert gate(keys, keys="never").admit(request()).owner == ANONYMOUS
    with pytest.raises(UnauthorizedError):
        gate(keys, keys="never").admit(request("wrong"))


def test_a_revoked_key_is_no_key(keys: KeyStore) -> None:
    secret = keys.add("ann")
    keys.revoke("ann")
    for who in ("auto", "always", "never"):
        with pytest.raises(UnauthorizedError):
            gate(keys, keys=who).admit(request(secret, peer="127.0.0.1"))
    with pytest.raises(OptionError, match="no key 'ann'"):
        keys.revoke("ann")


def test_limits_of_a_key_and_of_an_address(keys: KeyStore) -> None:
    secret, free = keys.add("ann", rate_per_minute=2, max_open_jobs=3), keys.add("bob", rate_per_minute=0)
    opened = gate(keys, rate_per_minute=1, max_open_jobs=9, keys="never")
    assert [opened.admit(request(secret)).quota.of_owner for _ in range(2)] == [3, 3]
    with pytest.raises(RateError) as refused:
        opened.admit(request(secret))
    assert 0 < refused.value.retry_after <= 60
    assert {opened.admit(request(free)).quota.of_owner for _ in range(5)} == {9}
    opened.admit(request(peer="10.0.0.1"))
    opened.admit(request(peer="10.0.0.2"))
    with pytest.raises(RateError):
        opened.admit(request(peer="10.0.0.1"))


def test_the_store_holds_no_secret(keys: KeyStore, store_url: str) -> None:
    secret = keys.add("ann")
    database = Database(store_url)
    with database.reading() as connection:
        assert secret not in str(connection.execute(text("SELECT * FROM api_keys")).all())
    database.close()


def test_keys_on_the_command_line(store_url: str, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    assert main(["keys", "add", "ci", "--rate", "60", "--store", store_url]) == 0
    assert capsys.readouterr().out.startswith("ttopt_")
    assert main(["keys", "add", "ci", "--store", store_url]) == 2
    assert "already" in capsys.readouterr().err
    assert main(["keys", "list", "--store", store_url]) == 0
    assert "ci" in capsys.readouterr().out
    assert main(["keys", "revoke", "ci", "--store", store_url]) == 0
    assert main(["keys", "revoke", "ic", "--store", store_url]) == 2
    assert main(["keys", "list", "--store", "mysql://x/y"]) == 2
    assert "sqlite:" in capsys.readouterr().err
