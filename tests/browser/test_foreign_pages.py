"""Pages of other sites in a browser without its own guard of private networks: what a keyless service lets them do.

The browser takes the names below for addresses of this machine, as after DNS rebinding. The pages themselves are handed
to it here, at the addresses that they would have; whatever they ask goes to the service.
"""

from __future__ import annotations

import json
import re
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from service_process import Service

from api.jobs.database import Database
from api.jobs.records import Submission, Task
from api.jobs.store import JobStore, Quota
from api.serving import key_store

GUARDS = "PrivateNetworkAccessSendPreflights,PrivateNetworkAccessRespectPreflightResults,LocalNetworkAccessChecks"
NETWORK = "192.0.2.7"
"""An address of no machine, which stands for this one on its network: browsers say nothing of sites to plain ones."""
FLAGS = (
    f"--disable-features={GUARDS},BlockInsecurePrivateNetworkRequests",
    f"--host-resolver-rules=MAP evil.example 127.0.0.1,MAP {NETWORK} 127.0.0.1",
)
LIES: tuple[dict[str, str], ...] = (
    {}, {"X-Forwarded-For": "127.0.0.1"}, {"Forwarded": "for=127.0.0.1;host=localhost"}, {"X-Real-IP": "127.0.0.1"},
    {"Via": "1.1 proxy"}, {"X-Forwarded-Host": "localhost"}, {"X-Forwarded-Proto": "https"},
    {"X-Forwarded-For": "10.0.0.9", "X-Forwarded-Host": "localhost:8000", "X-Original-Host": "localhost"},
    {"Authorization": "Bearer x"}, {"X-HTTP-Method-Override": "GET", "X-Host": "localhost"},
)  # fmt: skip
ASK = """([calls, headers]) => Promise.all(calls.map(async ([method, path]) => {
  const answer = await fetch(path, {method, headers, body: method === "POST" ? "{}" : undefined});
  return [answer.status, await answer.text()];
}))"""
POST = """async (address) => {
  const model = JSON.stringify({model: {}, values: {}, ops: []});
  const form = new FormData();
  form.append("file", new Blob([model]), "model.json");
  const more = {referrerPolicy: "no-referrer"};
  for (const options of [{body: model}, {body: model, ...more}, {body: form}, {body: new URLSearchParams({a: "b"})}]) {
    // What is refused is a failure to the page; what was done is asked of the service.
    await fetch(address, {method: "POST", mode: "no-cors", ...options}).catch(() => null);
  }
}"""
FORM = """(address) => {
  document.body.innerHTML = `<form method="post" enctype="text/plain" action="${address}"><input name="a"></form>`;
  document.forms[0].submit();
}"""
POSTS = 5


@pytest.fixture
def store_url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'jobs.sqlite'}"


def waiting_job(store_url: str) -> str:
    """A job of a caller without a key, posted by somebody else than a page."""
    database = Database(store_url)
    task = Task("optimize", options={"board": "n150", "policy": "dram"})
    job = JobStore(database).submit(Submission("", task, "key", name="secret-model"), Quota())
    database.close()
    return job.id


def page_at(browser: Any, address: str) -> Any:
    """A page of somebody's at an address, which nobody is asked for."""
    context = browser.new_context()
    body = "<!doctype html><title>attack</title><body>"
    context.route(address, lambda route: route.fulfill(body=body, content_type="text/html"))
    page = context.new_page()
    page.goto(address)
    return page


def answered(url: str, **headers: str) -> tuple[int, Any]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, headers=headers)) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


@pytest.mark.slow
def test_a_rebound_name_neither_reads_nor_deletes_jobs(browser: Any, tmp_path: Path, store_url: str) -> None:
    """Before there is a key, while there is one, and after it was revoked."""
    with Service(tmp_path, workers=0, store=store_url, ready=False) as service, key_store(store_url) as keys:
        job = waiting_job(store_url)
        page = page_at(browser, f"http://evil.example:{service.port}/attack")
        calls = [(method, f"/v1/jobs{rest}") for method, rest in (
            ("GET", ""), ("GET", f"/{job}"), ("GET", f"/{job}/result"), ("GET", f"/{job}/events"), ("POST", ""),
            ("GET", f"/{job}/artifacts/json"), ("POST", f"/{job}/retry"), ("DELETE", f"/{job}"),
        )]  # fmt: skip
        calls += [("GET", "/v1/boards"), ("GET", "/metrics"), ("POST", "/v1/optimize"), ("POST", "/v1/inspect")]
        for change in (lambda: None, lambda: keys.add("ann"), lambda: keys.revoke("ann")):
            change()
            for lies in LIES:
                for (method, path), (status, text) in zip(calls, page.evaluate(ASK, [calls, lies]), strict=True):
                    assert status in (401, 403), (method, path, lies)
                    assert "secret-model" not in text
        status, document = answered(f"{service.url}/v1/jobs/{job}")
        assert (status, document["state"]) == (200, "queued")


@pytest.fixture(scope="module")
def open_service(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    """A keyless service on every address, as its operator wants it."""
    settings = {"TTOPT_KEYS": "never"}
    folder = tmp_path_factory.mktemp("open")
    with Service(folder, workers=0, ready=False, settings=settings, host="0.0.0.0") as service:
        yield service


def refusals(service: Service) -> float:
    """How many posts of jobs were refused as those of a page."""
    counter = r'ttopt_requests_total{method="POST",route="/v1/jobs",status="403"} (.*)'
    said = re.search(counter, service.get("/metrics").decode())
    return float(said[1]) if said else 0.0


@pytest.mark.parametrize("host", [NETWORK, "127.0.0.1", "localhost"])
@pytest.mark.slow
def test_no_page_of_another_site_posts_a_job(browser: Any, open_service: Service, host: str) -> None:
    page = page_at(browser, "http://evil.example:5000/attack")
    address, before = f"http://{host}:{open_service.port}/v1/jobs", refusals(open_service)
    jobs = answered(f"{open_service.url}/v1/jobs")[1]["jobs"]
    page.evaluate(POST, address)
    with page.expect_navigation():
        page.evaluate(FORM, address)
    assert refusals(open_service) == before + POSTS
    assert answered(f"{open_service.url}/v1/jobs")[1]["jobs"] == jobs


def test_the_services_own_page_works_on_a_network_address(browser: Any, open_service: Service) -> None:
    waiting_job(open_service.store)
    page = browser.new_context().new_page()
    page.goto(f"http://{NETWORK}:{open_service.port}/")
    page.locator("#jobs li").first.wait_for()
    assert page.locator("#jobs li").count() == len(answered(f"{open_service.url}/v1/jobs")[1]["jobs"])
    ((status, _),) = page.evaluate(ASK, [[("POST", "/v1/jobs?seed=x")], {}])
    assert status == 422


def test_no_page_of_another_site_reads_a_network_address(browser: Any, open_service: Service) -> None:
    job = waiting_job(open_service.store)
    page = page_at(browser, f"http://evil.example:{open_service.port}/attack")
    for lies in LIES:
        ((status, text),) = page.evaluate(ASK, [[("GET", "/v1/jobs")], lies])
        assert status in (401, 403)
        assert "secret-model" not in text
    assert answered(f"{open_service.url}/v1/jobs")[1]["jobs"][0]["id"] == job
