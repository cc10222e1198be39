"""A service that answers as docs/formats.md says, and solves nothing: jobs go through a script of events."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from api.web.files import PAGE, security_policy, web_files

SCRIPT: tuple[tuple[str, dict[str, Any]], ...] = (
    ("stage", {"stage": "import", "fraction": 0.1}),
    ("stage", {"stage": "policy", "fraction": 0.6}),
    ("incumbent", {"objective_ns": 1600000, "bound_ns": None, "gap": None}),
    ("incumbent", {"objective_ns": 1500000, "bound_ns": 900000, "gap": 0.4}),
    ("incumbent", {"objective_ns": 1200000, "bound_ns": 1100000, "gap": 0.0833}),
    ("stage", {"stage": "verify", "fraction": 0.9}),
)
ARTIFACTS = [
    {"name": "json", "media_type": "application/json", "description": "the annotated graph"},
    {"name": "report", "media_type": "text/html", "description": "the plan as one page"},
    {"name": "ttnn-py", "media_type": "text/x-python", "description": "a runnable TTNN program"},
]


@dataclass
class Job:
    id: str
    name: str
    board: str
    policy: str
    created_at: float
    on_host: str = "false"
    """What the page says of ops that TTNN lacks."""
    state: str = "queued"
    told: int = 0
    """Events of the script that have happened."""
    ended_at: float | None = None

    def document(self) -> dict[str, Any]:
        happened = SCRIPT[: self.told]
        stages = [data for kind, data in happened if kind == "stage"]
        incumbents = [data for kind, data in happened if kind == "incumbent"]
        path = f"/v1/jobs/{self.id}"
        links = {name: f"{path}/{name}" for name in ("result", "events", "artifacts")}
        return {
            "id": self.id, "state": self.state, "name": self.name, "board": self.board, "policy": self.policy,
            "created_at": iso(self.created_at), "started_at": iso(self.created_at) if self.told else None,
            "finished_at": None if self.ended_at is None else iso(self.ended_at),
            "progress": stages[-1] if stages else {"stage": None, "fraction": 0},
            "incumbent": incumbents[-1] if incumbents else None, "error": None,
            "links": {"self": path, **links},
        }  # fmt: skip


def iso(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S.000+00:00", time.gmtime(seconds))


@dataclass
class StandIn:
    """What the handlers share. Events happen when a test says so, or all at once."""

    report: str
    key: str | None = None
    address: str = ""
    holds: bool = False
    """Whether jobs stay where they are until `advance`."""
    drops: bool = False
    """Whether every event ends its connection, as a proxy might."""
    jobs: dict[str, Job] = field(default_factory=dict)
    resumed: list[str] = field(default_factory=list)
    """`Last-Event-ID` of the requests for events."""
    asked: set[str] = field(default_factory=set)
    """Parts of the addresses of artifacts, which are not there when they are first asked for."""
    changed: threading.Condition = field(default_factory=threading.Condition)

    def submit(self, name: str, board: str, policy: str) -> Job:
        job = Job(f"{len(self.jobs) + 1:032x}", name, board, policy, time.time())
        self.jobs[job.id] = job
        if not self.holds:
            self.advance(job.id, len(SCRIPT) + 1)
        return job

    def advance(self, job_id: str, steps: int) -> None:
        """Let so many events happen; one more than there are ends the job."""
        with self.changed:
            job = self.jobs[job_id]
            for _ in range(steps):
                if job.told < len(SCRIPT):
                    job.state, job.told = "running", job.told + 1
                else:
                    job.state, job.ended_at = "succeeded", time.time()
            self.changed.notify_all()

    def cancel(self, job_id: str) -> Job:
        with self.changed:
            job = self.jobs[job_id]
            job.state, job.ended_at = "cancelled", time.time()
            self.changed.notify_all()
        return job


class Refused(Exception):
    def __init__(self, status: int, **members: Any) -> None:
        super().__init__(status)
        self.status, self.members = status, members


class Handler(BaseHTTPRequestHandler):
    state: StandIn

    def log_message(self, *_args: Any) -> None:
        pass

    def handle_one_request(self) -> None:
        try:
            super().handle_one_request()
        except (ConnectionResetError, BrokenPipeError):
            self.close_connection = True

    def do_GET(self) -> None:
        self.respond("GET")

    def do_POST(self) -> None:
        self.respond("POST")

    def do_DELETE(self) -> None:
        self.respond("DELETE")

    def respond(self, method: str) -> None:
        length = int(self.headers.get("Content-Length") or 0)
        body = self.rfile.read(length)
        url = urlsplit(self.path)
        query = {key: values[-1] for key, values in parse_qs(url.query).items()}
        try:
            self.route(method, url.path, query, body)
        except Refused as refused:
            self.send(refused.status, {"status": refused.status, **refused.members}, "application/problem+json")

    def route(self, method: str, path: str, query: dict[str, str], body: bytes) -> None:
        parts = path.strip("/").split("/")
        if path == "/" or parts[0] == "web":
            file = web_files()[PAGE if path == "/" else parts[-1]]
            self.send(200, file.content, file.media_type)
            return
        if self.state.key is not None and self.headers.get("Authorization") != f"Bearer {self.state.key}":
            raise Refused(401, title="Unauthorized", detail="the service wants an API key", code="no-key")
        if path == "/v1/boards":
            self.send(200, [{"name": name, "arch": "wormhole_b0"} for name in ("n150", "p150")])
        elif path == "/v1/policies":
            self.send(200, [{"name": name, "description": f"plans by {name}"} for name in ("dram", "global")])
        elif path == "/v1/jobs" and method == "POST":
            self.submit(query, body)
        elif path == "/v1/jobs":
            self.listed(int(query.get("limit", 50)), int(query.get("cursor", 0)))
        else:
            self.of_job(method, self.state.jobs[parts[2]], parts[3:])

    def submit(self, query: dict[str, str], body: bytes) -> None:
        if body.startswith(b"bad"):
            detail = "node 'fc1' has 40000 nodes <b>around</b> it"
            limits = {"node": "fc1", "limit": 20000, "alternatives": ["a smaller model", "TTOPT_MAX_NODES"]}
            raise Refused(422, title="Unprocessable Content", detail=detail, code="too-large", **limits)
        job = self.state.submit(query["name"], query["board"], query["policy"])
        job.on_host = query["allow_host_ops"]
        self.send(202, job.document(), headers={"Location": f"/v1/jobs/{job.id}", "Retry-After": "1"})

    def listed(self, limit: int, start: int) -> None:
        jobs = sorted(self.state.jobs.values(), key=lambda job: job.id, reverse=True)
        after = str(start + limit) if len(jobs) > start + limit else None
        self.send(200, {"jobs": [job.document() for job in jobs[start : start + limit]], "next": after})

    def of_job(self, method: str, job: Job, rest: list[str]) -> None:
        if method == "DELETE":
            self.send(200, self.state.cancel(job.id).document())
        elif not rest:
            self.send(200, job.document())
        elif rest == ["events"]:
            self.events(job)
        elif rest == ["artifacts"]:
            self.send(200, ARTIFACTS)
        elif rest == ["artifacts", "report"]:
            self.send(
                200,
                self.state.report.encode(),
                "text/html",
                {"Content-Disposition": 'attachment; filename="report.html"'},
            )
        elif rest == ["artifacts", "json"]:
            self.send(200, {"schema": "ttopt.annotated-graph/1"})
        elif not self.state.asked.issuperset(rest):
            self.state.asked.update(rest)
            self.send(202, {"state": "queued"}, headers={"Retry-After": "0.1"})
        else:
            self.send(
                200,
                b"print('a program')\n",
                "text/x-python",
                {"Content-Disposition": 'attachment; filename="model_ttnn.py"'},
            )

    def events(self, job: Job) -> None:
        self.state.resumed.append(self.headers.get("Last-Event-ID") or "")
        told = int(self.headers.get("Last-Event-ID") or 0)
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.end_headers()
        while True:
            with self.state.changed:
                while job.told <= told and job.ended_at is None:
                    self.state.changed.wait(timeout=1)
                happened, state, ended = job.told, job.state, job.ended_at is not None
            for number in range(told, happened):
                kind, data = SCRIPT[number]
                self.event(number + 1, kind, data)
                if self.state.drops:
                    return
            told = happened
            if ended:
                self.event(len(SCRIPT) + 1, "done", {"state": state})
                return

    def event(self, number: int, kind: str, data: dict[str, Any]) -> None:
        self.wfile.write(f"id: {number}\nevent: {kind}\ndata: {json.dumps(data)}\n\n".encode())
        self.wfile.flush()

    def send(
        self, status: int, content: Any, media_type: str = "application/json", headers: dict[str, str] | None = None
    ) -> None:
        data = content if isinstance(content, bytes) else json.dumps(content).encode()
        self.send_response(status)
        for name, value in {"Content-Type": media_type, "Content-Length": str(len(data)), **(headers or {})}.items():
            self.send_header(name, value)
        self.send_header("Content-Security-Policy", security_policy())
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(data)


class Server(ThreadingHTTPServer):
    request_queue_size = 64
    """A browser opens several connections at once."""


@contextmanager
def serving(state: StandIn) -> Iterator[StandIn]:
    """The stand-in on a port of its own."""
    server = Server(("127.0.0.1", 0), type("Bound", (Handler,), {"state": state}))
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        state.address = f"http://127.0.0.1:{server.server_address[1]}/"
        yield state
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
