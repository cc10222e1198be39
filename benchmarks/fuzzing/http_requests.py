"""HTTP requests, whole, broken and slow, as scripts of a connection.

A payload is a JSON object: `parts`, each `[milliseconds to wait, bytes as Latin-1 text]`; `end`, what the client does
after them: `keep` the connection, `half`-close it, or `leave`; and `head`, whether an answer has no body.
"""

from __future__ import annotations

import contextlib
import functools
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fuzzing.document_mutations import DOCUMENT_MUTATORS, encoded
from fuzzing.plan_corruptions import plan
from optimizer.options import option_infos

ROOT = Path(__file__).resolve().parents[2]
GRAPHS = ROOT / "fixtures" / "graphs"
ODD_VALUES: tuple[Any, ...] = (
    None, True, False, 0, -1, 2**31, 2**53 + 1, 10**400, 0.5, 1e308, float("nan"), float("inf"), "", "n150", "dram",
    "\ud800", "\udfff\ud800", "a\r\nX: y", "\x00", "\u2028", "x" * 5000, [], [1], {}, {"x": [1, 2]}, {"\ud800": [1]},
    {"x": [10**30]}, {"x": "1"}, "ttmetal", "../../etc/passwd.json", "/dev/zero.json", "%s%n", "\x1b[2J",
)  # fmt: skip
ODD_TEXTS = (
    b"", b"a", b"%ff", b"%ed%a0%80", b"%00", b"%0d%0aX:%20y", b"%", b"%zz", b"+", b"x" * 300, b"..%2f..", b"1e400",
    b"nan", b"-0", b"9" * 500, b"x:1,2", b"x:0", b"dram", b"p150", b"true", b"\xe9", b"a=b=c", b"&&", b"[0]", b"#",
)  # fmt: skip
ODD_HEADERS = (
    b"Host: [", b"Host: a b", b"Host: \xff", b"Host:", b"Content-Length: -1", b"Content-Length: +5",
    b"Content-Length: 5, 5", b"Content-Length: 5, 6", b"Content-Length: 1e3", b"Content-Length: 0x10",
    b"Content-Length: " + b"9" * 400, b"Content-Length: 0", b"Content-Length: 99999999999", b"Content-Length: ",
    b"Transfer-Encoding: chunked", b"Transfer-Encoding: gzip, chunked", b"Transfer-Encoding: identity",
    b"Transfer-Encoding: \x0bchunked", b"Transfer-Encoding : chunked", b"transfer-encoding: CHUNKED",
    b"Content-Encoding: gzip", b"Content-Encoding: \xff\xfe", b"Content-Type: \xff", b"Content-Type: ;;;=",
    b"Content-Type: application/json; charset=utf-16", b"Content-Type: multipart/form-data",
    b"Content-Type: multipart/form-data; boundary=", b"Content-Type: multipart/form-data; boundary=\"a\xff\"",
    b"Content-Type: multipart/form-data; boundary=b; charset=idna", b"Expect: 100-continue", b"Expect: x",
    b"Connection: close", b"Connection: upgrade\r\nUpgrade: websocket", b"Upgrade: h2c", b"Connection: keep-alive, x",
    b"Accept-Encoding: gzip", b"Accept-Encoding: \x80", b"X: " + b"y" * 20000, b"X\x00: y", b"X: a\x00b", b": y",
    b"X y: z", b" folded: x", b"X: a\r\n b", b"X:\ny", b"Range: bytes=0-", b"Cookie: " + b"a=b;" * 500,
    b"Content-Disposition: form-data", b"Origin: null", b"X-Forwarded-For: \r", b"Trailer: x", b"TE: trailers",
)  # fmt: skip
TARGETS = (
    b"/healthz", b"/readyz", b"/openapi.json", b"/docs", b"/", b"/v1/optimize", b"/v1/optimize/", b"*", b"//", b"/%",
    b"http://x/healthz", b"/%ff%0a", b"/../../etc/passwd", b"/v1/optimize?" + b"a" * 10000,
    b"/v1/optimize?" + b"&" * 9000,
    b"/v1/optimize#x", b"/healthz?\xff", b"/" + b"a" * 70000, b"x:1", b"/\x00", b"/v1/optimize?name=%ed%a0%80", b"",
    b"/healthz/", b"/redoc", b"/healthz;x", b"/\\", b"[", b"http://[", b"//[/healthz", b"/v1/jobs", b"/v1/jobs/x",
    b"/v1/jobs?limit=-1", b"/v1/jobs?cursor=%ff", b"/v1/jobs/%00/result", b"/v1/jobs/../jobs", b"/v1/jobs/x/events",
    b"/v1/jobs/x/artifacts/%2e%2e", b"/v1/inspect", b"/v1/check", b"/v1/diff", b"/v1/price", b"/v1/explain?op=%ff",
    b"/v1/boards", b"/metrics", b"/web/..%2f..%2fsettings.py", b"/web/page.js",
)  # fmt: skip
METHODS = (b"GET", b"POST", b"HEAD", b"PUT", b"OPTIONS", b"CONNECT", b"TRACE", b"post", b"\xff", b"", b"A" * 300)
CHUNKS = (
    b"5\r\nabcde\r\n0\r\n\r\n", b"0\r\n\r\n", b"g\r\n", b"-1\r\n", b"5;x=y\r\nabcde\r\n0\r\n\r\n",
    b"5\r\nabcdeXX0\r\n\r\n",
    b"ffffffffffffffffffff\r\n", b"5\nabcde\n0\n\n", b"5\r\nab", b"0\r\nX: y\r\n\r\n", b"0x5\r\nabcde\r\n0\r\n\r\n",
    b"5\r\nabcde\r\n0\r\nContent-Length: 3\r\n\r\n", b"1" * 50000, b"\r\n",
)  # fmt: skip
GARBAGE = (
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", b"\x00" * 200, b"\r\n\r\n",
    b"GET\r\n\r\n", b"GET /healthz HTTP/9.9\r\n\r\n", b"GET /healthz HTTP/1.0\r\n\r\n", b"\xff" * 3000,
    b"GET /healthz\r\n\r\n", b"GET /healthz HTTP/1.1\n\n", b"USER x\r\nPASS y\r\n", b"{}\r\n\r\n", b"A" * 100000,
)  # fmt: skip
OPTIMIZE = b"/v1/optimize"
RESULTS = ("kernels", "in place", "op on the host", "conv net")
"""Plans of `plan_corruptions` that are small enough."""
Record = dict[str, Any]


def _script(data: bytes, end: str = "keep", head: bool = False) -> Record:
    return {"parts": [[0, data.decode("latin-1")]], "end": end, "head": head}


def _message(method: bytes, target: bytes, headers: list[bytes], body: bytes = b"", length: bool = True) -> bytes:
    lines = [method + b" " + target + b" HTTP/1.1", *headers]
    if length:
        lines.append(b"Content-Length: %d" % len(body))
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def _post(body: bytes, target: bytes = OPTIMIZE + b"?policy=dram", *headers: bytes) -> bytes:
    return _message(b"POST", target, [b"Host: localhost", *headers], body)


@functools.cache
def _graph() -> Record:
    record: Record = json.loads((GRAPHS / "mlp.json").read_text(encoding="utf-8"))
    return record


@functools.cache
def _onnx() -> bytes:
    from onnx import TensorProto, helper

    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Relu", ["h"], ["y"])]
    interface = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [32, 64]) for name in ("x", "y")]
    weights = helper.make_tensor("w", TensorProto.FLOAT, [64, 64], [0.5] * 4096)
    graph = helper.make_graph(nodes, "g", interface[:1], interface[1:], [weights])
    model: bytes = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]).SerializeToString()
    return model


def _body(rng: random.Random) -> tuple[bytes, list[bytes]]:
    """A body that is accepted, and its headers."""
    kind = rng.randrange(4)
    if kind == 0:
        return _onnx(), []
    if kind == 1:
        return json.dumps(_graph()).encode(), [b"Content-Type: application/json"]
    if kind == 2:
        record = {"graph": _graph(), "options": {"policy": rng.choice(("dram", "dfsharding"))}}
        return json.dumps(record).encode(), [b"Content-Type: application/json"]
    return _form([(b'name="file"; filename="m.onnx"', _onnx()), (b'name="options"', b'{"policy": "dram"}')])


def _form(parts: list[tuple[bytes, bytes]], boundary: bytes = b"bb") -> tuple[bytes, list[bytes]]:
    pieces = [
        b"--" + boundary + b"\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + data + b"\r\n"
        for head, data in parts
    ]
    headers = [b"Content-Type: multipart/form-data; boundary=" + boundary]
    return b"".join(pieces) + b"--" + boundary + b"--\r\n", headers


def whole(rng: random.Random) -> Record:
    """A request that is in order."""
    body, headers = _body(rng)
    return _script(_post(body, OPTIMIZE + b"?policy=dram", *headers))


def chunked(rng: random.Random) -> Record:
    body, headers = _body(rng)
    pieces, at = [], 0
    while at < len(body):
        size = rng.choice((1, 7, 100, 5000, 50000))
        piece = body[at : at + size]
        pieces.append(b"%x\r\n" % len(piece) + piece + b"\r\n")
        at += size if len(pieces) < 200 else len(body)
    headers = [b"Host: localhost", b"Transfer-Encoding: chunked", *headers]
    return _script(_message(b"POST", OPTIMIZE, headers, b"".join(pieces) + b"0\r\n\r\n", length=False))


def bad_chunks(rng: random.Random) -> Record:
    headers = [
        b"Host: localhost",
        rng.choice((b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked\r\nContent-Length: 9")),
    ]
    return _script(_message(b"POST", OPTIMIZE, headers, rng.choice(CHUNKS), length=False), rng.choice(("half", "keep")))


def odd_header(rng: random.Random) -> Record:
    body, headers = _body(rng)
    extra = rng.sample(ODD_HEADERS, rng.randint(1, 2))
    order = [*headers, *extra, b"Host: localhost"]
    rng.shuffle(order)
    return _script(_message(b"POST", OPTIMIZE, order, body, rng.random() < 0.7), rng.choice(("half", "keep")))


def odd_target(rng: random.Random) -> Record:
    method = rng.choice(METHODS)
    data = _message(method, rng.choice(TARGETS), [b"Host: localhost"], length=rng.random() < 0.5)
    return _script(data, rng.choice(("half", "keep")), method == b"HEAD")


def odd_query(rng: random.Random) -> Record:
    names = [info.name.encode() for info in option_infos()] + [b"name", b"", b"polcy", b"%ed%a0%80", b"a" * 2000]
    pairs = [rng.choice(names) + b"=" + rng.choice(ODD_TEXTS) for _ in range(rng.choice((1, 1, 1, 2, 3, 30)))]
    body, headers = _body(rng)
    return _script(_post(body, OPTIMIZE + b"?" + b"&".join(pairs), *headers), "half")


def odd_options(rng: random.Random) -> Record:
    names = [info.name for info in option_infos()] + ["polcy", "\ud800", ""]
    options = {rng.choice(names): rng.choice(ODD_VALUES) for _ in range(rng.choice((1, 1, 2)))}
    if rng.random() < 0.3:
        data = json.dumps(options).encode()
        body, headers = _form([(b'name="file"; filename="m.onnx"', _onnx()), (b'name="options"', data)])
    else:
        record = {"graph": _graph(), "options": {"policy": "dram", **options}}
        body, headers = json.dumps(record).encode(), [b"Content-Type: application/json"]
    return _script(_post(body, OPTIMIZE, *headers))


def odd_document(rng: random.Random) -> Record:
    deep = rng.choice((10, 500, 900, 990, 1000, 3000, 60000))
    text: bytes = rng.choice(
        (
            b'{"graph": ' + b"[" * deep + b"]" * deep + b"}",
            b'{"graph": {"a": ' + b"[" * deep + b"]" * deep + b"}}",
            b'{"graph": {"a": ' + b'{"a":' * deep + b"1" + b"}" * deep + b"}}",
            b"[" * deep,
            b'{"graph": {}, "graph": {}}',
            b'{"graph": NaN}',
            b'{"graph": {"model": -Infinity}}',
            b'{"graph": {"model": ' + b"9" * 6000 + b"}}",
            b'{"graph": {"model": 1e999999}}',
            b'{"graph": {"ops": [], "values": {"\\ud800": {}}, "model": {"inputs": [], "outputs": []}}}',
            b'{"\\ud800": 1, "graph": {}}',
            b'{"graph": {}, "options": {"\\udc00": "\\ud800"}}',
            b"\xff\xfe{\x00}\x00",
            b"\xef\xbb\xbf{}",
            b'{"graph": "' + b"x" * 100000 + b'"}',
            b"null",
            b'"',
            b"0" * 100000,
        )
    )
    return _script(_post(text, OPTIMIZE, b"Content-Type: application/json"))


def odd_graph(rng: random.Random) -> Record:
    """One entry of the graph is another value, by a path of keys."""
    record = json.loads(json.dumps(_graph()))
    place: Any = record
    while True:
        keys = list(place) if isinstance(place, dict) else list(range(len(place)))
        key = rng.choice(keys)
        if isinstance(place[key], dict | list) and place[key] and rng.random() < 0.7:
            place = place[key]
            continue
        place[key] = rng.choice(ODD_VALUES)
        break
    wrapped = {"graph": record, "options": {"policy": "dram"}}
    return _script(_post(json.dumps(wrapped).encode(), OPTIMIZE, b"Content-Type: application/json"))


def odd_result(rng: random.Random) -> Record:
    """A finished result with other numbers, names or fields, to be judged, explained or compared."""
    given = plan(rng.choice(RESULTS))
    whole, ops = json.dumps(given).encode(), [op["id"] for op in given["ops"]]
    for _ in range(rng.choice((1, 1, 2))):
        rng.choice(DOCUMENT_MUTATORS)(given, rng)
    body, route = encoded(given, rng), rng.choice((b"check", b"price", b"diff", b"explain", b"inspect", b"optimize"))
    if route == b"explain":
        route += b"?op=" + rng.choice(ops).encode() + rng.choice((b"", b"&recorded=true"))
    if route == b"diff":
        body, headers = _form([(b'name="first"; filename="a"', body), (b'name="second"; filename="b"', whole)])
    else:
        headers = [b"Content-Type: application/json"]
    return _script(_post(body, b"/v1/" + route, *headers))


def odd_form(rng: random.Random) -> Record:
    heads = (
        b'name="file"; filename="m.onnx"', b'name="options"', b'name="file"', b'name="options"; filename="o"', b"",
        b'name="x"', b'name="file"; filename="\xff\xfe"', b'name="file"; filename="a\\"b/../\n"', b'name=""',
        b'name="\xed\xa0\x80"', b'name="file"; filename*=utf-16\'\'%00', b'name="file"; filename=""',
        b'name="file"; filename="x"\r\nContent-Type: ' + b"y" * 9000, b'name="file"; filename="m"\r\nX: y\r\nX: z',
    )  # fmt: skip
    datas = (_onnx(), b'{"policy": "dram"}', b"", b"{", b"\xff", b'{"policy": "\\ud800"}', b"x" * 70000, b"[[" * 9000)
    chosen = [(rng.choice(heads), rng.choice(datas)) for _ in range(rng.randint(0, 4))]
    body, headers = _form(chosen, rng.choice((b"bb", b"b" * 300, b"-", b'"b"')))
    if rng.random() < 0.3:
        body = _flipped(body, rng)
    if rng.random() < 0.2:
        headers[0] += rng.choice(
            (b"; charset=idna", b"; charset=unicode_escape", b"; charset=utf-7", b"; charset=\xff")
        )
    return _script(_post(body, OPTIMIZE + b"?policy=dram", *headers))


def flipped(rng: random.Random) -> Record:
    """Bytes of a body are others."""
    body, headers = _body(rng)
    return _script(_post(_flipped(body, rng), OPTIMIZE + b"?policy=dram", *headers))


def _flipped(data: bytes, rng: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(rng.choice((1, 2, 5, 50))):
        # Weights are most of it and mean nothing: rather the two ends.
        at = rng.randrange(len(changed)) if rng.random() < 0.3 else rng.choice((1, -1)) * rng.randrange(1, 200)
        with contextlib.suppress(IndexError):
            changed[at] = rng.randrange(256)
    return bytes(changed[: rng.randrange(len(changed))] if rng.random() < 0.2 else changed)


def cut_short(rng: random.Random) -> Record:
    """The client stops in the middle."""
    body, headers = _body(rng)
    data = _post(body, OPTIMIZE, *headers)
    return _script(data[: rng.randrange(len(data))], rng.choice(("half", "leave")))


def slow(rng: random.Random) -> Record:
    """The request comes in pieces, of which some come too late."""
    body, headers = _body(rng)
    data = _post(body, OPTIMIZE, *headers).decode("latin-1")
    cut = sorted(rng.randrange(len(data)) for _ in range(rng.randint(1, 4)))
    if rng.random() < 0.5:
        cut[0] = rng.randrange(60)  # in the head
    ends = [*sorted(cut), len(data)]
    parts = [[rng.choice((0, 20, 300, 1800)), data[a:b]] for a, b in zip([0, *ends], ends, strict=False)]
    return {"parts": parts, "end": "keep", "head": False}


def garbage(rng: random.Random) -> Record:
    data = rng.choice(GARBAGE) if rng.random() < 0.7 else rng.randbytes(rng.choice((1, 30, 3000, 100_000)))
    return _script(data, rng.choice(("half", "half", "keep")))


def several(rng: random.Random) -> Record:
    """Requests one after the other without waiting for answers, the last maybe hidden in a body."""
    first, headers = _body(rng)
    ask = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"
    data = rng.choice(
        (
            _post(first, OPTIMIZE, *headers) + ask,
            ask * rng.randint(2, 50),
            _message(b"GET", b"/healthz", [b"Host: localhost", b"Content-Length: %d" % len(ask)], ask, length=False),
            _message(b"POST", b"/nothing", [b"Host: localhost"], first) + ask,
            _message(b"POST", OPTIMIZE + b"?polcy=1", [b"Host: localhost"], first) + ask,
            _message(b"POST", OPTIMIZE, [b"Host: localhost", b"Transfer-Encoding: chunked"], b"0\r\n\r\n") + ask,
        )
    )
    return _script(data, rng.choice(("half", "keep")))


def too_large(rng: random.Random) -> Record:
    size = rng.choice((150_001, 400_000))
    if rng.random() < 0.5:
        return _script(_post(b"x" * size))
    body = b"%x\r\n" % size + b"x" * size + b"\r\n0\r\n\r\n"
    return _script(_message(b"POST", OPTIMIZE, [b"Host: localhost", b"Transfer-Encoding: chunked"], body, length=False))


KINDS: tuple[tuple[int, Callable[[random.Random], Record]], ...] = (
    (6, whole), (4, chunked), (6, bad_chunks), (14, odd_header), (6, odd_target), (10, odd_query), (14, odd_options),
    (6, odd_document), (12, odd_graph), (24, odd_result), (8, odd_form), (10, flipped), (4, cut_short),
    (2, slow), (5, garbage), (5, several), (2, too_large),
)  # fmt: skip
MAKERS = [(make.__name__, make) for weight, make in KINDS for _ in range(weight)]
