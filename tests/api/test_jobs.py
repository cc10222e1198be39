"""Jobs over HTTP, their workers real."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.serving import key_store
from api.settings import Settings
from tests.api.clients import local_client
from tests.api.test_service import JSON_GRAPH, assert_problem, command_result, document

PATIENCE_SECONDS = 60


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(Settings(workers=1, wait_seconds=30))
    with local_client(app) as connected:
        yield connected


def finished(client: TestClient, job: dict[str, Any]) -> dict[str, Any]:
    ends = time.monotonic() + PATIENCE_SECONDS
    while job["state"] in ("queued", "running"):
        assert time.monotonic() < ends
        time.sleep(0.05)
        job = client.get(job["links"]["self"]).json()
    return job


def events(text: str) -> list[tuple[int, str, dict[str, Any]]]:
    """Number, kind and data of each event of a stream."""
    found = []
    for block in text.strip().split("\n\n"):
        lines = dict(line.split(": ", 1) for line in block.splitlines())
        found.append((int(lines["id"]), lines["event"], json.loads(lines["data"])))
    return found


@pytest.mark.slow
def test_a_job_from_post_to_result(client: TestClient, mlp_onnx: Path, tmp_path: Path) -> None:
    posted = client.post("/v1/jobs?policy=dfsharding&name=mlp", content=mlp_onnx.read_bytes())
    assert posted.status_code == 202
    job = posted.json()
    assert posted.headers["location"] == job["links"]["self"] == f"/v1/jobs/{job['id']}"
    assert (job["board"], job["policy"], job["name"]) == ("n150", "dfsharding", "mlp")
    done = finished(client, job)
    assert (done["state"], done["attempts"], done["progress"]["fraction"], done["error"]) == ("succeeded", 1, 1.0, None)
    result = client.get(job["links"]["result"])
    wanted = command_result(mlp_onnx, tmp_path, "--policy", "dfsharding")
    assert document(result.content) == wanted
    assert done["predicted_time_ns"] == wanted["summary"]["predicted_time_ns"]


@pytest.mark.slow
def test_a_result_that_the_client_has_is_not_sent_again(client: TestClient, mlp_onnx: Path) -> None:
    url = "/v1/optimize?policy=dfsharding&name=mlp"
    first = client.post(url, content=mlp_onnx.read_bytes())
    again = client.post(url, content=mlp_onnx.read_bytes(), headers={"if-none-match": first.headers["etag"]})
    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["x-cache"] == "hit"


def test_tags_tell_encodings_apart_and_head_is_get_without_a_body(client: TestClient, mlp_onnx: Path) -> None:
    job = finished(client, client.post("/v1/jobs", content=mlp_onnx.read_bytes()).json())
    path = job["links"]["result"]
    plain, packed = (client.get(path, headers={"Accept-Encoding": name}).headers for name in ("identity", "gzip"))
    assert plain["etag"] != packed["etag"]
    assert plain["vary"] == packed["vary"] == "Accept-Encoding"
    for known in (f"W/{plain['etag']}", "*", f'"x", {plain["etag"]}'):
        headers = {"If-None-Match": known, "Accept-Encoding": "identity"}
        assert client.get(path, headers=headers).status_code == 304
    head = client.head(path, headers={"Accept-Encoding": "identity"})
    assert (head.status_code, head.headers["content-length"]) == (200, plain["content-length"])
    assert client.head(job["links"]["events"]).status_code == 405


def test_equal_requests_have_one_result_however_they_are_spelled(client: TestClient, mlp_onnx: Path) -> None:
    body = mlp_onnx.read_bytes()
    first = client.post("/v1/optimize?name=same&seed=4", content=body)
    assert first.headers["x-cache"] == "miss"
    spelled = client.post("/v1/optimize?name=same&seed=4&board=n150&max-legal-layouts=64", content=body)
    assert spelled.headers["x-cache"] == "hit"
    form = client.post("/v1/optimize", files={"file": ("same.onnx", body)}, data={"options": '{"seed": 4}'})
    assert form.headers["x-cache"] == "hit"
    assert first.content == spelled.content == form.content
    assert client.post("/v1/optimize?name=other&seed=4", content=body).headers["x-cache"] == "miss"


def test_events_tell_stages_and_the_end_and_can_be_resumed(client: TestClient, mlp_onnx: Path) -> None:
    job = client.post("/v1/jobs?seed=11", content=mlp_onnx.read_bytes()).json()
    stream = client.get(job["links"]["events"])
    assert stream.headers["content-type"].startswith("text/event-stream")
    found = events(stream.text)
    assert [number for number, *_ in found] == sorted({number for number, *_ in found})
    assert found[-1][1:] == ("done", {"state": "succeeded"})
    incumbents = [data for _, kind, data in found if kind == "incumbent"]
    assert incumbents
    assert set(incumbents[-1]) == {"objective_ns", "bound_ns", "gap"}
    assert any(kind == "stage" for _, kind, _ in found)
    resumed = client.get(job["links"]["events"], headers={"last-event-id": str(found[1][0])})
    assert events(resumed.text) == found[2:]


def test_a_failed_job_tells_why(client: TestClient) -> None:
    job = finished(client, client.post("/v1/jobs", content=b"\x08\x08 this is not onnx").json())
    assert job["state"] == "failed"
    assert (job["error"]["code"], job["error"]["status"]) == ("bad-format", 400)
    refused = assert_problem(client.get(job["links"]["result"]), 409, "job-failed")
    assert refused["error"] == job["error"]
    again = client.post(f"{job['links']['self']}/retry")
    assert (again.status_code, again.json()["state"]) == (202, "queued")
    assert finished(client, again.json())["state"] == "failed"


def test_what_is_wrong_with_options_is_told_before_anything_is_queued(client: TestClient, mlp_onnx: Path) -> None:
    before = client.get("/v1/jobs").json()["jobs"]
    assert_problem(client.post("/v1/jobs?seed=x", content=mlp_onnx.read_bytes()), 422, "bad-option")
    assert_problem(client.post("/v1/jobs?priority=11", content=mlp_onnx.read_bytes()), 422, "bad-option")
    assert_problem(client.post("/v1/jobs?opmodel=ttmetal", content=mlp_onnx.read_bytes()), 403, "not-permitted")
    assert_problem(client.post("/v1/jobs", content=b""), 400, "bad-format")
    assert client.get("/v1/jobs").json()["jobs"] == before


def test_an_idempotency_key(client: TestClient, mlp_onnx: Path) -> None:
    headers = {"idempotency-key": "once"}
    first = client.post("/v1/jobs?seed=21", content=mlp_onnx.read_bytes(), headers=headers).json()
    assert client.post("/v1/jobs?seed=21", content=mlp_onnx.read_bytes(), headers=headers).json()["id"] == first["id"]
    other = client.post("/v1/jobs?seed=22", content=mlp_onnx.read_bytes(), headers=headers)
    assert_problem(other, 422, "key-reused")
    finished(client, first)


def test_a_client_that_does_not_wait_gets_the_job(client: TestClient, mlp_onnx: Path) -> None:
    response = client.post("/v1/optimize?seed=31&wait=0", content=mlp_onnx.read_bytes())
    assert response.status_code == 202
    assert int(response.headers["retry-after"]) >= 1
    job = finished(client, response.json())
    again = client.post("/v1/optimize?seed=31&wait=0", content=mlp_onnx.read_bytes())
    assert (again.status_code, again.headers["x-cache"]) == (200, "hit")
    assert again.content == client.get(job["links"]["result"]).content


def test_a_cancelled_job(client: TestClient, project_root: Path) -> None:
    resnet = (project_root / "fixtures" / "onnx" / "resnet50_b1_legacy17.onnx").read_bytes()
    running, waiting = (client.post(f"/v1/jobs?seed={seed}", content=resnet).json() for seed in (41, 42))
    assert client.delete(waiting["links"]["self"]).json()["state"] == "cancelled"
    assert_problem(client.get(running["links"]["result"]), 409, "not-finished")
    client.delete(running["links"]["self"])
    done = finished(client, running)
    assert done["state"] == "cancelled"
    assert_problem(client.get(running["links"]["result"]), 409, "wrong-state")
    assert client.post("/v1/optimize", json=JSON_GRAPH).status_code == 200


@pytest.mark.slow
def test_a_job_past_its_time_limit_has_the_best_plan_so_far(client: TestClient, project_root: Path) -> None:
    model = (project_root / "fixtures" / "onnx" / "llama32_1b_16l_dynamo20.onnx").read_bytes()
    for seconds in (1, 2, 4, 8, 16):
        response = client.post(f"/v1/optimize?time_limit={seconds}", content=model)
        if response.status_code == 200:
            break
        assert_problem(response, 504, "time-limit")  # on a busy machine there is nothing to return yet
    summary = response.json()["summary"]
    assert any("best plan found until then" in warning for warning in summary["warnings"])
    job = client.get("/v1/jobs?limit=1").json()["jobs"][0]
    assert job["gap"] == summary["gap"]
    again = client.post(f"/v1/jobs?time_limit={seconds}", content=model).json()
    assert again["state"] != "succeeded"
    client.delete(again["links"]["self"])


def test_lists_are_paged(client: TestClient) -> None:
    ids: list[str] = []
    cursor = ""
    while cursor is not None:
        page = client.get(f"/v1/jobs?limit=3&cursor={cursor}").json()
        ids += [job["id"] for job in page["jobs"]]
        cursor = page["next"]
    assert len(ids) == len(set(ids)) > 3
    failed = client.get("/v1/jobs?state=failed").json()["jobs"]
    assert {job["state"] for job in failed} == {"failed"}
    assert_problem(client.get("/v1/jobs?limit=0"), 422, "bad-option")
    assert_problem(client.get("/v1/jobs?cursor=x"), 422, "bad-option")
    assert_problem(client.get("/v1/jobs?state=done"), 422, "bad-option")


@pytest.mark.parametrize("job_id", ["0" * 32, "x", "%00", "..", "0" * 31 + "G"])
def test_there_is_no_such_job(client: TestClient, job_id: str) -> None:
    for path in ("", "/result", "/events"):
        assert_problem(client.get(f"/v1/jobs/{job_id}{path}"), 404, "not-found")
    assert_problem(client.delete(f"/v1/jobs/{job_id}"), 404, "not-found")


def test_answers_carry_safe_headers_and_a_request_id(client: TestClient) -> None:
    response = client.get("/healthz", headers={"x-request-id": "from-the-client.1"})
    assert response.headers["x-request-id"] == "from-the-client.1"
    assert response.headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in response.headers["content-security-policy"]
    forged = client.get("/healthz", headers={"x-request-id": "a b"})
    assert forged.headers["x-request-id"] not in ("", "a b")


@pytest.mark.slow
def test_metrics(client: TestClient, mlp_onnx: Path) -> None:
    for _ in range(2):  # the second one is known
        client.post("/v1/optimize?policy=dfsharding&name=counted", content=mlp_onnx.read_bytes())
    client.portal.call(client.app.state.desk.look_around)  # type: ignore[union-attr]
    text = client.get("/metrics").text
    for name in ("ttopt_jobs{", "ttopt_queue_depth", "ttopt_stage_seconds_bucket", "ttopt_solver_gap_bucket",
                 'ttopt_cache_total{outcome="hit"}', "ttopt_worker_restarts_total", "ttopt_warm_slots"):  # fmt: skip
        assert name in text


# -- services with other settings ------------------------------------------------------------------------
def test_jobs_belong_to_the_key_that_posted_them(store_url: str, mlp_onnx: Path) -> None:
    app = create_app(Settings(workers=0, store=store_url, keys="always", max_open_jobs=2))
    with local_client(app) as connected, key_store(store_url) as keys:
        ann, bob = ({"authorization": f"Bearer {keys.add(name, rate_per_minute=8)}"} for name in ("ann", "bob"))
        assert_problem(connected.post("/v1/jobs", content=mlp_onnx.read_bytes()), 401, "unauthorized")
        posted = [connected.post(f"/v1/jobs?seed={n}", content=mlp_onnx.read_bytes(), headers=ann) for n in range(3)]
        assert [response.status_code for response in posted] == [202, 202, 429]
        assert assert_problem(posted[2], 429, "busy")["limit"] == 2
        path = posted[0].json()["links"]["self"]
        assert connected.get(path, headers=ann).status_code == 200
        for method, place in (("GET", path), ("DELETE", path), ("GET", f"{path}/result"), ("POST", f"{path}/retry"),
                              ("GET", f"{path}/events"), ("GET", f"{path}/artifacts/json")):  # fmt: skip
            assert_problem(connected.request(method, place, headers=bob), 404, "not-found")
        assert connected.get("/v1/jobs", headers=bob).json()["jobs"] == []
        limited = [connected.get("/v1/jobs", headers=bob) for _ in range(2)][-1]
        assert_problem(limited, 429, "rate-limit")
        assert 0 < int(limited.headers["retry-after"]) <= 60
        assert connected.get("/healthz").status_code == 200


def test_without_a_warm_worker_the_service_is_not_ready(store_url: str) -> None:
    app = create_app(Settings(workers=0, store=store_url))
    with local_client(app) as connected:
        assert_problem(connected.get("/readyz"), 503, "not-ready")
        assert connected.get("/healthz").status_code == 200


def test_a_queue_that_is_full_refuses(store_url: str, mlp_onnx: Path) -> None:
    app = create_app(Settings(workers=0, store=store_url, queue_limit=1))
    with local_client(app) as connected:
        assert connected.post("/v1/jobs", content=mlp_onnx.read_bytes()).status_code == 202
        refused = connected.post("/v1/jobs?seed=1", content=mlp_onnx.read_bytes())
    assert_problem(refused, 429, "busy")
    assert int(refused.headers["retry-after"]) > 0
