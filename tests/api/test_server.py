"""The service as it is run: `ttopt serve` in a process of its own, real sockets."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from urllib.error import URLError
from urllib.request import Request, urlopen

import pytest

from api.jobs.database import Database
from api.serving import is_loopback, opens_to_strangers
from api.settings import Settings
from optimizer.cli import main

START_SECONDS = 60


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """Base URL of a running service with one worker."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "optimizer.cli", "serve", "--port", str(port), "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_up(url)
        yield url
    finally:
        process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=30)
    assert process.returncode in (0, -signal.SIGTERM), log
    assert "Traceback" not in log


def wait_until_up(url: str) -> None:
    deadline = time.monotonic() + START_SECONDS
    while True:
        try:
            with urlopen(f"{url}/healthz", timeout=5) as response:
                assert response.status == 200
                return
        except URLError:
            assert time.monotonic() < deadline, "the service does not come up"
            time.sleep(0.1)


def post(url: str, body: bytes, policy: str) -> bytes:
    with urlopen(Request(f"{url}/v1/optimize?policy={policy}", data=body), timeout=300) as response:
        data: bytes = response.read()
        return data


@pytest.mark.slow
def test_the_answer_is_the_commands_and_health_answers_meanwhile(
    server: str, project_root: Path, tmp_path: Path
) -> None:
    """Plain urllib posts as curl's --data-binary does, as a url-encoded form."""
    model = project_root / "fixtures" / "onnx" / "resnet50_b1_legacy17.onnx"
    with ThreadPoolExecutor(1) as background:
        answer = background.submit(post, f"{server}", model.read_bytes(), "dfsharding")
        waits = []
        while not answer.done():
            started = time.monotonic()
            with urlopen(f"{server}/healthz", timeout=10):
                waits.append(time.monotonic() - started)
            time.sleep(0.02)
    assert len(waits) > 5
    assert max(waits) < 2.0
    assert main(["optimize", str(model), "-o", str(tmp_path), "--policy", "dfsharding"]) == 0
    documents = [json.loads(answer.result()), json.loads((tmp_path / "graph.json").read_bytes())]
    for document in documents:
        del document["timings"]
        # The bytes of a body have no file name.
        del document["model"]["name"]
    assert json.dumps(documents[0]) == json.dumps(documents[1])


@pytest.mark.slow
def test_a_client_that_leaves_frees_the_worker(server: str, project_root: Path) -> None:
    body = (project_root / "fixtures" / "onnx" / "llama32_1b_16l_dynamo20.onnx").read_bytes()
    with socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])), timeout=10) as connection:
        head = f"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nContent-Length: {len(body)}\r\n\r\n"
        connection.sendall(head.encode() + body)
        time.sleep(0.5)
    started = time.monotonic()
    small = (project_root / "fixtures" / "onnx" / "dlrm_like_dynamo20.onnx").read_bytes()
    assert json.loads(post(server, small, "dram"))["schema"] == "ttopt.annotated-graph/1"
    assert time.monotonic() - started < 30


@pytest.mark.slow
def test_a_half_sent_body_does_no_harm(server: str) -> None:
    with socket.create_connection(("127.0.0.1", int(server.rpartition(":")[2])), timeout=10) as connection:
        connection.sendall(b"POST /v1/optimize HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\nhalf")
    with urlopen(f"{server}/healthz", timeout=10) as response:
        assert response.status == 200


def test_a_taken_port_is_an_error(project_root: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [sys.executable, "-m", "optimizer.cli", "serve", "--port", port, "--workers", "1"],
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
            env={**os.environ, "PYTHONWARNINGS": "error"},
        )
    assert done.returncode == 2
    assert "address already in use" in done.stderr.lower()
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::"])
@pytest.mark.slow
def test_a_service_without_keys_is_for_this_machine_alone(host: str, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'jobs.sqlite'}"
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    serve = [sys.executable, "-m", "optimizer.cli", "serve", "--host", host, "--port", port, "--store", store]
    done = subprocess.run(serve, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    for remedy in ("ttopt keys add", "TTOPT_KEYS=always", "TTOPT_KEYS=never", "127.0.0.1"):
        assert remedy in done.stderr
    assert "Traceback" not in done.stderr
    # That a key existed once is enough to be reached: nobody comes in without one.
    assert main(["keys", "add", "ann", "--store", store]) == 0
    assert main(["keys", "revoke", "ann", "--store", store]) == 0
    database = Database(store)
    assert not opens_to_strangers(host, Settings(), database)
    database.close()


@pytest.mark.parametrize(("host", "is_alone"), [
    ("127.0.0.1", True), ("localhost", True), ("::1", True), ("127.1.2.3", True), ("", False), ("0.0.0.0", False),
    ("::", False), ("192.0.2.7", False),
])  # fmt: skip
def test_addresses_that_only_this_machine_reaches(host: str, is_alone: bool) -> None:
    assert is_loopback(host) is is_alone
