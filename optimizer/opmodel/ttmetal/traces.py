"""What tt-metal says: its error texts, and the buffers and programs in its graph captures.

Standard library only: the child process loads this file by its path.
"""

from __future__ import annotations

import re
from typing import Any

Message = dict[str, Any]
Nodes = list[dict[str, Any]]
"""A graph capture as tt-metal returns it."""

TRACED_PROGRAMS = 12
TRACED_BUFFERS = 32

_FAILED = re.compile(r"TT_(?:FATAL|THROW|ASSERT) @ (?P<where>\S+:\d+): ?(?P<condition>.*)")
_BUFFERS = {"circular_buffer_allocate": "cb", "dataflow_buffer_allocate": "dfb", "scratchpad_allocate": "scr"}
_RANGE = re.compile(r"(\d+)-(\d+) - (\d+)-(\d+)")


def classify(message: str) -> str:
    """The kind of a rejection, from tt-metal's text."""
    if "Out of Memory" in message:
        if "L1_SMALL buffer" in message:
            return "oom_l1_small"
        return "oom_dram" if "DRAM buffer" in message else "oom_l1"
    if "Statically allocated" in message and "beyond max L1" in message:
        return "cb_too_big"
    if "Statically allocated" in message and "clash with L1" in message:
        return "cb_clash"
    return "validation"


def explain(error: BaseException) -> Message:
    """A rejection as `{kind, error, cond, where}`: the first line of the message, without running counters."""
    text = str(error).strip() or type(error).__name__
    found = _FAILED.search(text)
    where = condition = None
    first = text.split("\n", 1)[0]
    if found:
        where, condition = found["where"], found["condition"].strip() or None
        _, mark, info = text.partition("\ninfo:\n")
        first = info.split("\n", 1)[0] if mark else first
    if isinstance(error, TypeError):
        first = "TypeError: " + first
    first = re.sub(r"program \d+", "program #", first.strip())
    where = None if where is None else re.sub(r"^/project/", "", where)
    return {"kind": classify(text), "error": first, "cond": condition, "where": where}


def cores_of(ranges: str) -> int:
    """Cores in tt-metal's text of a set of rectangles: `{[0-0 - 7-0]}`."""
    return sum((int(c) - int(a) + 1) * (int(d) - int(b) + 1) for a, b, c, d in _RANGE.findall(ranges))


def backed(params: dict[str, Any]) -> bool:
    """Whether a buffer lies in a tensor's memory, and so takes none of its own."""
    return params.get("globally_allocated", params.get("borrows_memory", "0")) in ("1", "true", True, 1)


def programs_of(nodes: Nodes) -> list[Any]:
    """Device programs of a capture in order: `[name, [[kind, bytes per core, cores, tensor backed 0/1], ...]]`."""
    programs: list[Any] = []
    buffers: list[Any] = []
    calls: list[str] = []
    for node in nodes:
        kind, params = node["node_type"], node["params"]
        if kind in _BUFFERS:
            size, cores = int(params.get("size", 0)), cores_of(params.get("core_range_set", ""))
            buffers.append([_BUFFERS[kind], size, cores, int(backed(params))])
        elif kind == "function_start":
            calls.append(params["name"])
        elif kind == "function_end":
            name = calls.pop() if calls else params["name"]
            if buffers and name.endswith("Operation"):
                programs.append([re.sub(r"(Device)?Operation$", "", name).rpartition("::")[2], buffers])
                buffers = []
        elif kind == "circular_buffer_deallocate_all" and buffers:
            programs.append(
                [re.sub(r"(Device)?Operation$", "", calls[-1] if calls else "").rpartition("::")[2], buffers]
            )
            buffers = []
    return [[name, found[:TRACED_BUFFERS]] for name, found in programs[:TRACED_PROGRAMS]]


def recounted(nodes: Nodes) -> dict[str, int]:
    """`{peak_l1, peak_total}` of a NO_DISPATCH capture in which the op frees an input.

    tt-metal then subtracts what it has not added, and its counters wrap around. Buffers made inside such a
    capture have address 0, so a freed input is told by its address; it goes on counting as the caller's.
    """
    tensors = buffers = peak_l1 = peak_total = 0
    for node in nodes:
        kind, params = node["node_type"], node["params"]
        if kind == "buffer_allocate" and params["type"] == "L1":
            tensors += int(params["max_size_per_bank"])
        elif kind == "buffer_deallocate" and params["type"] == "L1" and not int(params["address"]):
            tensors -= int(params["max_size_per_bank"])
        elif kind in _BUFFERS and not backed(params):
            buffers += int(params.get("size", 0))
        elif kind == "circular_buffer_deallocate_all":
            buffers = 0
        peak_l1, peak_total = max(peak_l1, tensors), max(peak_total, tensors + buffers)
    return {"peak_l1": peak_l1, "peak_total": peak_total}
