"""The HTTP service in this process, its workers real."""

from __future__ import annotations

import gzip
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings, machine_bytes
from api.tasks.models import OPTIONS_BYTES
from optimizer.cli import main
from optimizer.errors import OptionError
from tests.api.clients import local_client

BODY_LIMIT = 4 * 1024**2
NODE_LIMIT = 50

JSON_GRAPH: dict[str, Any] = {
    "model": {"name": "pair", "inputs": ["x"], "outputs": ["z"]},
    "values": {
        "x": {"shape": [1, 1, 256, 512], "dtype": "bf16", "kind": "input"},
        "w": {"shape": [512, 512], "dtype": "bf16", "kind": "parameter"},
        "y": {"shape": [1, 1, 256, 512], "dtype": "bf16", "kind": "activation"},
        "z": {"shape": [1, 1, 256, 512], "dtype": "bf16", "kind": "activation"},
    },
    "ops": [
        {"id": "mm", "op": "ttnn.matmul", "inputs": ["x", "w"], "outputs": ["y"]},
        {"id": "act", "op": "ttnn.relu", "inputs": ["y"], "outputs": ["z"]},
    ],
}


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    app = create_app(Settings(workers=1, max_body_bytes=BODY_LIMIT, max_nodes=NODE_LIMIT))
    with local_client(app) as connected:
        yield connected


def document(text: str | bytes) -> dict[str, Any]:
    """A graph.json without what differs between runs."""
    record: dict[str, Any] = json.loads(text)
    del record["timings"]
    return record


def command_result(model: Path, folder: Path, *arguments: str) -> dict[str, Any]:
    assert main(["optimize", str(model), "-o", str(folder), *arguments]) == 0
    return document((folder / "graph.json").read_bytes())


def assert_problem(response: Any, status: int, code: str) -> dict[str, Any]:
    assert response.status_code == status
    assert response.headers["content-type"] == "application/problem+json"
    problem: dict[str, Any] = response.json()
    assert {"type", "title", "status", "detail", "instance", "code"} <= set(problem)
    assert (problem["status"], problem["code"]) == (status, code)
    assert "Traceback" not in response.text
    return problem


# -- three body forms --------------------------------------------------------------------------------
@pytest.mark.parametrize("media_type", ["application/octet-stream", "application/x-www-form-urlencoded", None])
@pytest.mark.slow
def test_raw_onnx_gives_what_the_command_writes(
    client: TestClient, mlp_onnx: Path, tmp_path: Path, media_type: str | None
) -> None:
    headers = {} if media_type is None else {"content-type": media_type}
    response = client.post("/v1/optimize?name=mlp", content=mlp_onnx.read_bytes(), headers=headers)
    assert response.status_code == 200
    assert response.headers["content-type"] == "application/json"
    assert document(response.content) == command_result(mlp_onnx, tmp_path)
    keys = [list(json.loads(text)) for text in (response.content, (tmp_path / "graph.json").read_bytes())]
    assert keys[0] == keys[1]


@pytest.mark.slow
def test_options_in_the_query(client: TestClient, mlp_onnx: Path, tmp_path: Path) -> None:
    query = "name=mlp&board=p150&policy=dram&tensor-l1-usage-cap=0.9"
    response = client.post(f"/v1/optimize?{query}", content=mlp_onnx.read_bytes())
    wanted = command_result(mlp_onnx, tmp_path, "--board", "p150", "--policy", "dram", "--tensor-l1-usage-cap", "0.9")
    assert document(response.content) == wanted


def test_multipart_with_options(client: TestClient, mlp_onnx: Path, tmp_path: Path) -> None:
    response = client.post(
        "/v1/optimize?seed=2",
        files={"file": ("mlp.onnx", mlp_onnx.read_bytes())},
        data={"options": json.dumps({"board": "n300", "seed": 1})},
    )
    assert document(response.content) == command_result(mlp_onnx, tmp_path, "--board", "n300", "--seed", "2")


def test_json_graph(client: TestClient, tmp_path: Path) -> None:
    text = json.dumps(JSON_GRAPH)
    (tmp_path / "pair.json").write_text(text)
    wanted = command_result(tmp_path / "pair.json", tmp_path)
    headers = {"content-type": "application/json"}
    bare = client.post("/v1/optimize", content=text, headers=headers)
    assert document(bare.content) == wanted
    wrapped = client.post("/v1/optimize", json={"graph": JSON_GRAPH, "options": {"seed": 0}})
    assert document(wrapped.content)["values"] == wanted["values"]
    undeclared = client.post("/v1/optimize", content=text)
    assert document(undeclared.content) == wanted


def test_answers_are_compressed_when_asked(client: TestClient, mlp_onnx: Path) -> None:
    with client.stream(
        "POST", "/v1/optimize", content=mlp_onnx.read_bytes(), headers={"accept-encoding": "gzip"}
    ) as response:
        raw = b"".join(response.iter_raw())
    assert response.headers["content-encoding"] == "gzip"
    assert document(gzip.decompress(raw))["schema"] == "ttopt.annotated-graph/1"


# -- errors --------------------------------------------------------------------------------------------
@pytest.mark.parametrize("body", [b"", b"\x08\x08 this is not onnx", b"PK\x03\x04"])
def test_a_corrupt_model_is_a_400(client: TestClient, body: bytes) -> None:
    assert_problem(client.post("/v1/optimize", content=body), 400, "bad-format")


@pytest.mark.parametrize("text", ["{", '{"graph": 1}', "[]", '{"graph": null}', "[" * 100_000, '{"a":' * 50_000])
def test_a_corrupt_document_is_a_400(client: TestClient, text: str) -> None:
    response = client.post("/v1/optimize", content=text, headers={"content-type": "application/json"})
    assert_problem(response, 400, "bad-format")


@pytest.mark.parametrize(
    ("query", "code", "alternative"),
    [
        ("polcy=dram", "unknown-name", "policy"),
        ("policy=dramm", "unknown-name", "dram"),
        ("board=n15O", "unknown-name", "n150"),
        ("math_fidelity=hifi9", "bad-option", "hifi4"),
        ("seed=x", "bad-option", None),
        ("board=/etc/hostname.json", "bad-option", None),
    ],
)
def test_wrong_options_are_a_422(
    client: TestClient, mlp_onnx: Path, query: str, code: str, alternative: str | None
) -> None:
    problem = assert_problem(client.post(f"/v1/optimize?{query}", content=mlp_onnx.read_bytes()), 422, code)
    assert alternative is None or alternative in problem["alternatives"]


@pytest.mark.parametrize("options", ["{", "[]", '{"polcy": 1}', '{"seed": "x"}'])
def test_wrong_form_options_are_a_422(client: TestClient, mlp_onnx: Path, options: str) -> None:
    response = client.post("/v1/optimize", files={"file": mlp_onnx.read_bytes()}, data={"options": options})
    assert response.status_code == 422
    assert response.headers["content-type"] == "application/problem+json"


def test_unknown_fields_beside_the_graph_are_refused(client: TestClient) -> None:
    problem = assert_problem(
        client.post("/v1/optimize", json={"graph": JSON_GRAPH, "optionz": {"board": "p150"}}), 422, "unknown-name"
    )
    assert "optionz" in problem["detail"]
    assert problem["alternatives"] == ["options", "graph"]
    assert_problem(client.post("/v1/optimize", json={"graph": JSON_GRAPH, "options": []}), 422, "bad-option")


def test_a_compressed_body_is_a_415(client: TestClient, mlp_onnx: Path) -> None:
    body = gzip.compress(mlp_onnx.read_bytes())
    response = client.post("/v1/optimize", content=body, headers={"content-encoding": "gzip"})
    assert "gzip" in assert_problem(response, 415, "unsupported-encoding")["detail"]


def test_broken_forms_are_a_400(client: TestClient, mlp_onnx: Path) -> None:
    assert_problem(client.post("/v1/optimize", files={"model": b"x"}), 400, "bad-format")
    assert_problem(client.post("/v1/optimize", files={"file": (None, "text")}), 400, "bad-format")
    headers = {"content-type": "multipart/form-data; boundary=b"}
    assert_problem(client.post("/v1/optimize", content=b"no boundary here", headers=headers), 400, "bad-format")
    assert_problem(
        client.post("/v1/optimize", content=b"x", headers={"content-type": "multipart/form-data"}), 400, "bad-format"
    )


def test_a_body_past_the_limit_is_a_413(client: TestClient) -> None:
    announced = client.post("/v1/optimize", content=b"x" * (BODY_LIMIT + 1))
    assert assert_problem(announced, 413, "too-large")["limit"] == BODY_LIMIT
    streamed = client.post("/v1/optimize", content=(b"x" * 1024**2 for _ in range(6)))
    assert_problem(streamed, 413, "too-large")
    form = client.post("/v1/optimize", files={"file": b"x" * (BODY_LIMIT + 1)})
    assert_problem(form, 413, "too-large")


def test_a_graph_past_the_node_limit_is_a_413(client: TestClient) -> None:
    values = {f"v{n}": {"shape": [32, 32], "dtype": "bf16", "kind": "activation"} for n in range(NODE_LIMIT + 2)}
    values["v0"]["kind"] = "input"
    ops = [
        {"id": f"op{n}", "op": "ttnn.relu", "inputs": [f"v{n}"], "outputs": [f"v{n + 1}"]}
        for n in range(NODE_LIMIT + 1)
    ]
    graph = {"model": {"inputs": ["v0"], "outputs": [f"v{NODE_LIMIT + 1}"]}, "values": values, "ops": ops}
    assert assert_problem(client.post("/v1/optimize", json=graph), 413, "too-large")["limit"] == NODE_LIMIT


def test_routing_errors_are_problems(client: TestClient) -> None:
    assert_problem(client.get("/v2/optimize"), 404, "not-found")
    response = client.get("/v1/optimize")
    assert_problem(response, 405, "method-not-allowed")
    assert response.headers["allow"] == "POST"


@pytest.mark.parametrize(
    "options",
    [
        '{"board": "\\ud800"}',
        '{"\\udfff": 1}',
        '{"input_shapes": {"\\ud800": "x"}}',
        '{"override_output_layout": "\\ud800=dram"}',
        '{"check": "\\ud800"}',
        '{"seed": NaN}',
        '{"time_limit": -Infinity}',
        '{"seed": ' + "9" * 4000 + "}",
    ],
)
def test_whatever_an_option_holds_the_answer_can_be_written(client: TestClient, options: str) -> None:
    """Also one that no UTF-8 can hold, or that JSON lacks."""
    text = f'{{"graph": {json.dumps(JSON_GRAPH)}, "options": {options}}}'
    response = client.post("/v1/optimize", content=text, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.headers["content-type"] == "application/problem+json"
    json.dumps(json.loads(response.content), ensure_ascii=False, allow_nan=False).encode()


@pytest.mark.parametrize("size", [OPTIONS_BYTES + 1, 1_000_000])
def test_options_have_a_length(client: TestClient, mlp_onnx: Path, size: int) -> None:
    options = {"override_output_layout": "x" * size}
    form = {"files": {"file": mlp_onnx.read_bytes()}, "data": {"options": json.dumps(options)}}
    answers = [client.post("/v1/jobs", **form), client.post("/v1/optimize", **form)]
    answers.append(client.post("/v1/optimize", json={"graph": JSON_GRAPH, "options": options}))
    for answer in answers:
        assert assert_problem(answer, 413, "too-large")["limit"] == OPTIONS_BYTES


def test_a_long_text_is_repeated_in_part(client: TestClient) -> None:
    record = {"graph": JSON_GRAPH, "options": {"x" * 60_000: 1}}
    problem = assert_problem(client.post("/v1/optimize", json=record), 422, "unknown-name")
    assert len(json.dumps(problem)) < 10_000


def test_programs_of_the_server_are_off(client: TestClient, mlp_onnx: Path) -> None:
    for query in ("opmodel=ttmetal", "check=ttmetal"):
        response = client.post(f"/v1/optimize?{query}", content=mlp_onnx.read_bytes())
        assert "TTOPT_ALLOW_TTMETAL" in assert_problem(response, 403, "not-permitted")["detail"]


@pytest.mark.parametrize("charset", ["idna", "unicode_escape", "hex", "utf-16"])
def test_a_form_in_another_charset_is_a_400(client: TestClient, charset: str) -> None:
    headers = {"content-type": f"multipart/form-data; boundary=b; charset={charset}"}
    body = b'--b\r\nContent-Disposition: form-data; name="\\ud800"\r\n\r\n\xff\r\n--b--\r\n'
    assert_problem(client.post("/v1/optimize", content=body, headers=headers), 400, "bad-format")


def test_a_path_cannot_forge_a_line_of_the_log(caplog: pytest.LogCaptureFixture) -> None:
    app = create_app(Settings(workers=1))

    @app.get("/broken/{name}")
    async def broken(name: str) -> None:
        raise ValueError(f"{name}\nERROR forged")

    with local_client(app) as connected:
        assert_problem(connected.get("/broken/a%0AERROR%20forged"), 500, "internal")
    message = caplog.records[-1].getMessage()
    assert "forged" in message
    assert not any(line.startswith("ERROR") for line in message.splitlines())


# -- the rest --------------------------------------------------------------------------------------------
def test_health_and_readiness(client: TestClient) -> None:
    assert client.get("/healthz").json()["status"] == "ok"
    ends = time.monotonic() + 60
    while (response := client.get("/readyz")).status_code != 200:
        assert_problem(response, 503, "not-ready")
        assert time.monotonic() < ends
        time.sleep(0.05)
    assert response.json() == {"status": "ready"}


def test_the_openapi_document_names_every_option_and_body(client: TestClient) -> None:
    route = client.get("/openapi.json").json()["paths"]["/v1/optimize"]["post"]
    assert {"board", "policy", "input_shapes", "name"} <= {p["name"] for p in route["parameters"]}
    assert set(route["requestBody"]["content"]) == {
        "application/octet-stream",
        "application/json",
        "multipart/form-data",
    }
    assert "$ref" not in json.dumps(route["requestBody"])
    assert {"400", "413", "422", "429", "503", "504"} <= set(route["responses"])


def test_settings_come_from_the_environment() -> None:
    settings = Settings.from_environment({"TTOPT_WORKERS": "3", "TTOPT_REQUEST_SECONDS": "1.5", "OTHER": "x"})
    assert (settings.workers, settings.request_seconds, settings.max_nodes) == (3, 1.5, Settings().max_nodes)


def test_the_memory_of_a_worker_is_its_part_of_the_machines(tmp_path: Path) -> None:
    (tmp_path / "memory.max").write_text("8000000000\n")
    assert machine_bytes(tmp_path / "memory.max") <= 8_000_000_000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine_bytes(tmp_path / "memory.max") == machine_bytes(tmp_path / "missing")
    assert Settings(worker_memory_bytes=7).memory_of_a_worker == 7
    assert Settings(workers=1000).memory_of_a_worker == 2 * 1024**3


@pytest.mark.parametrize(("name", "value"), [
    ("WORKERS", "many"), ("HOSTS", "http://ttopt.example"), ("HOSTS", "ttopt.example:80"), ("HOSTS", "*"),
    ("TRUSTED_PROXIES", "nginx"), ("TRUSTED_PROXIES", "10.0.0.1/8"), ("TRUSTED_PROXIES", "*"),
])  # fmt: skip
def test_a_wrong_setting_names_its_variable(name: str, value: str) -> None:
    with pytest.raises(OptionError) as refused:
        Settings.from_environment({f"TTOPT_{name}": value})
    assert refused.value.node == f"TTOPT_{name}"
    assert f"got '{value}'" in refused.value.message


def test_settings_reach_the_worker_program() -> None:
    settings = Settings(hosts="TTOPT.example, b", trusted_proxies="10.0.0.0/8 ::1", keys="never", store_bytes=7)
    assert settings.hosts == ("ttopt.example", "b")
    assert Settings.from_environment(settings.to_environment()) == settings
