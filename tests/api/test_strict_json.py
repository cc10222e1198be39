"""One strict reader of JSON: what a file may not hold, no body of a request and no stored result may hold either."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient

from api.app import create_app
from api.settings import Settings
from optimizer.errors import FormatError
from optimizer.export.stored import read_annotated, read_placed
from optimizer.importers import load
from optimizer.process import json_document
from tests.api.clients import local_client

GRAPH = (
    '{"model": {"name": "n", "inputs": ["x"], "outputs": ["y"]}, "values": {"x": {"shape": [32, 32]}},\n'
    '  "ops": [{"id": "a", "op": "ttnn.add", "inputs": ["x"], "outputs": ["y"], "attrs": {"scalar": 1.0}}]}'
)
BAD = {
    "NaN": (GRAPH.replace("1.0", "NaN"), "NaN is no JSON number"),
    "infinity": (GRAPH.replace("1.0", "1e999"), "Infinity is no JSON number"),
    "beyond 64 bits": (GRAPH.replace("1.0", str(1 << 64)), "is beyond 64 bits"),
    "a key twice": (GRAPH.replace('"scalar"', '"scalar": 2.0, "scalar"'), 'an object has "scalar" twice'),
    "half a character": (GRAPH.replace('"n"', r'"\ud800"'), "surrogates not allowed"),
    "nested without end": (GRAPH.replace("1.0", "[" * 200 + "]" * 200), "nested more than 100 levels deep"),
}


def kernels(path: Path) -> Any:
    return json_document.records(json_document.read(path))


@pytest.fixture(scope="module")
def client() -> Iterator[TestClient]:
    with local_client(create_app(Settings(workers=1))) as connected:
        yield connected


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("read", [load, read_annotated, read_placed, kernels])
def test_files_are_read_strictly(read: Callable[[Path], Any], text: str, words: str, tmp_path: Path) -> None:
    (tmp_path / "graph.json").write_text(text)

    with pytest.raises(FormatError, match=words):
        read(tmp_path / "graph.json")


@pytest.mark.parametrize(("text", "words"), BAD.values(), ids=BAD)
@pytest.mark.parametrize("body", ["{}", '{{"graph": {}}}', '{{"options": {{}}, "graph": {}}}'])
def test_bodies_are_read_strictly(client: TestClient, text: str, words: str, body: str) -> None:
    response = client.post("/v1/optimize", content=body.format(text), headers={"content-type": "application/json"})

    assert response.status_code == 400
    assert response.json()["code"] == "bad-format"
    assert words in response.json()["detail"]


@pytest.mark.parametrize(
    "body",
    [
        "{}",
        '{{"graph": {}}}',
        '\n {{ "options" : {{"policy": "dram"}} ,\n\t"graph"\t:  {} \n}}',
        '{{"\\u0067raph": {}, "options": {{}}}}',
    ],
)
def test_a_result_states_the_digest_of_what_the_client_wrote(client: TestClient, body: str) -> None:
    graph = GRAPH.replace('"n"', '"\\u00e9 \u00e9"')

    response = client.post(
        "/v1/optimize", content=body.format(graph).encode(), headers={"content-type": "application/json"}
    )

    assert response.status_code == 200
    assert json.loads(response.content)["model"]["sha256"] == sha256(graph.encode()).hexdigest()
