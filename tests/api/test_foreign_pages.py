"""What a browser asks for pages of other sites: `Host` and `Origin` tell, on any address and through any proxy."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from fastapi import FastAPI
from fastapi.testclient import TestClient
from starlette.requests import HTTPConnection

from api.app import create_app
from api.foreign_pages import check_page
from api.problems import ForeignPageError
from api.settings import Settings
from tests.api.test_service import assert_problem

HOSTS = ("ttopt.example",)


def ask(scheme: str = "http", method: str = "POST", **headers: str) -> None:
    raw = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    scope = {"type": "http", "method": method, "scheme": scheme, "headers": raw, "client": ("10.0.0.9", 1)}
    check_page(HTTPConnection(scope), HOSTS)


@pytest.mark.parametrize("host", [
    "localhost:8000", "LOCALHOST", "localhost.", "127.0.0.1", "127.0.0.1:8000", "[::1]:80", "10.1.2.3:8000",
    "ttopt.example", "TTOPT.example:443", socket.gethostname(),
])  # fmt: skip
def test_names_of_the_service(host: str) -> None:
    ask(host=host)
    ask(host=host, origin=f"http://{host}".lower())
    ask(host=host, sec_fetch_site="same-origin")


@pytest.mark.parametrize("host", [
    "evil.example:8000", "localhost.evil.example", "127.0.0.1.evil.example", "1.2.3", "[", "", "a.ttopt.example",
    "evil.example@localhost", "localhost@evil.example", "localhost:8000:1", "localhost/evil", "local host", "[::1",
])  # fmt: skip
@pytest.mark.parametrize("method", ["GET", "POST", "DELETE"])
def test_other_names(host: str, method: str) -> None:
    with pytest.raises(ForeignPageError) as refused:
        ask(method=method, host=host, x_forwarded_for="127.0.0.1", x_forwarded_host="localhost")
    assert (refused.value.http_status, refused.value.node) == (403, "Host")
    assert "TTOPT_HOSTS" in refused.value.message


@pytest.mark.parametrize("origin", [
    "null", "http://evil.example", "http://evil.example:8000", "https://10.1.2.3:8000", "http://10.1.2.3",
    "http://10.1.2.3:8001", "http://localhost:8000", "file://", "", "http://10.1.2.3:8000/x", "chrome-extension://abc",
    "http://10.1.2.3:8000@evil.example",
])  # fmt: skip
def test_other_origins(origin: str) -> None:
    """Also on an address for which browsers send no `Sec-Fetch-Site`."""
    with pytest.raises(ForeignPageError) as refused:
        ask(host="10.1.2.3:8000", origin=origin)
    assert refused.value.node == "Origin"


@pytest.mark.parametrize(("host", "origin", "scheme"), [
    ("10.1.2.3", "http://10.1.2.3:80", "http"), ("10.1.2.3:80", "http://10.1.2.3", "http"),
    ("[::1]:8000", "http://[0::1]:8000", "http"), ("ttopt.example", "https://ttopt.example", "https"),
])  # fmt: skip
def test_the_same_origin_however_it_is_spelled(host: str, origin: str, scheme: str) -> None:
    ask(scheme, host=host, origin=origin)


def test_an_origin_without_a_host() -> None:
    ask()
    with pytest.raises(ForeignPageError):
        ask(origin="http://localhost:8000")


@pytest.mark.parametrize(("site", "mode", "method", "is_taken"), [
    ("cross-site", "cors", "GET", False), ("same-site", "no-cors", "POST", False), ("none", "navigate", "GET", True),
    ("cross-site", "navigate", "GET", True), ("cross-site", "navigate", "POST", False),
])  # fmt: skip
def test_what_browsers_say_of_the_site(site: str, mode: str, method: str, is_taken: bool) -> None:
    said = {"host": "localhost", "sec_fetch_site": site, "sec_fetch_mode": mode}
    if is_taken:
        ask(method=method, **said)
    else:
        with pytest.raises(ForeignPageError):
            ask(method=method, **said)


# -- through the application -----------------------------------------------------------------------------------
def client(app: FastAPI, base: str, peer: str = "127.0.0.1") -> TestClient:
    return TestClient(app, base, raise_server_exceptions=False, client=(peer, 1))


def application(store_url: str, **settings: Any) -> FastAPI:
    return create_app(Settings(store=store_url, workers=0, **settings))


@pytest.mark.parametrize("path", ["/v1/jobs", "/v1/boards", "/metrics", "/v1/jobs/" + "0" * 32])
def test_every_route_that_tells_something_asks_for_the_name(store_url: str, path: str) -> None:
    with client(application(store_url), "http://evil.example:8000") as page:
        for headers in ({}, {"x-forwarded-for": "127.0.0.1"}, {"via": "1.1 x"}):
            answer = page.get(path, headers=headers)
            assert answer.status_code in (401, 403), answer.text
    with client(application(store_url, keys="never"), "http://evil.example:8000", "10.0.0.9") as page:
        assert_problem(page.get(path), 403, "foreign-page")


def test_a_proxy_counts_only_where_the_operator_names_it(store_url: str) -> None:
    forwarded = {"x-forwarded-for": "10.0.0.9", "x-forwarded-proto": "https", "origin": "https://ttopt.example"}
    settings = {"keys": "never", "hosts": "ttopt.example", "rate_per_minute": 1}
    with client(application(store_url, **settings), "http://ttopt.example") as through:
        assert_problem(through.get("/v1/jobs", headers=forwarded), 403, "foreign-page")
        assert through.get("/v1/jobs").status_code == 200
        assert_problem(through.get("/v1/jobs", headers={"x-forwarded-for": "10.0.0.8"}), 429, "rate-limit")
    named = application(store_url, trusted_proxies="127.0.0.1, 10.1.0.0/16", **settings)
    with client(named, "http://ttopt.example") as through:
        assert through.get("/v1/jobs", headers=forwarded).status_code == 200
        others = {**forwarded, "x-forwarded-for": "1.1.1.1, 10.0.0.8, 10.1.2.3"}
        assert through.get("/v1/jobs", headers=others).status_code == 200
        assert_problem(through.get("/v1/jobs", headers=forwarded), 429, "rate-limit")


def test_health_and_the_page_itself_are_for_everybody(store_url: str) -> None:
    with client(application(store_url), "http://evil.example:8000", "10.0.0.9") as anybody:
        for path in ("/healthz", "/", "/openapi.json"):
            assert anybody.get(path).status_code == 200
