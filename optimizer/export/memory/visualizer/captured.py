"""What happens on the device within one op, as a captured graph of tt-metal's: programs, circular buffers, buffers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.export.memory.occupancy import Block, Gone, Made, OpMemory, Ran, is_passing
from optimizer.export.memory.visualizer.spelling import core_range_set_text
from optimizer.layouts.memory_config import CoreRange

DEVICE = 0
Node = dict[str, Any]


@dataclass(frozen=True)
class L1Tensor:
    """What a buffer in L1 holds, beside where it lies."""

    memory_layout: str
    cores: int
    page_bytes: int


@dataclass(frozen=True)
class Buffer:
    """A buffer in L1 with the value that lives in it."""

    name: str
    block: Block
    tensor: L1Tensor | None
    """None for what an op makes on the way, of which only the bytes per core are known."""

    def params(self) -> dict[str, str]:
        """What a capture says of it when it comes to life and when it goes; `size` is that of all cores together."""
        cores = 1 if self.tensor is None else self.tensor.cores
        return {
            "address": str(self.block.address),
            "size": str(self.block.size_bytes * cores),
            "max_size_per_bank": str(self.block.size_bytes),
            "num_cores": str(cores),
            "page_size": str(self.block.size_bytes if self.tensor is None else self.tensor.page_bytes),
            "layout": "UNKNOWN" if self.tensor is None else self.tensor.memory_layout,
            "type": "L1",
            "buffer_type": "1",
            "device_id": str(DEVICE),
            "of": "intermediate" if is_passing(self.name) else self.name,
        }


@dataclass(frozen=True)
class Programs:
    """What is known of the device programs of an op."""

    names: Sequence[str]
    """In order; the op's own name is taken for more programs than these."""
    cores: Sequence[CoreRange]
    bank: Block
    """Where circular buffers begin."""


def captured_graph(name: str, memory: OpMemory, programs: Programs, tensors: Mapping[str, L1Tensor]) -> list[Node]:
    """The nodes of one op; `tensors` are those that it finds in L1 or gives there."""
    graph = _Graph(name)
    blocks = dict(memory.residents)
    run = 0
    for event in memory.events:
        match event:
            case Made(made, block):
                blocks[made] = block
                graph.buffer("buffer_allocate", Buffer(made, block, tensors.get(made)))
            case Gone(gone):
                graph.buffer("buffer_deallocate", Buffer(gone, blocks.pop(gone), tensors.get(gone)))
            case Ran(cb_bytes):
                graph.run(programs.names[run] if run < len(programs.names) else name, cb_bytes, programs)
                run += 1
    return graph.finished()


def plain_graph(name: str, freed: Sequence[Buffer]) -> list[Node]:
    """The nodes of an op that runs no program, as `ttnn.deallocate`, and of the buffers that it frees."""
    graph = _Graph(name)
    for buffer in freed:
        graph.buffer("buffer_deallocate", buffer)
    return graph.finished()


class _Graph:
    """Nodes under construction; each leads to those that happen inside it, the last one to the end."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._nodes: list[Node] = []
        start = self._add("capture_start", 0)
        self._outer = self._add("function_start", 1, name=name, inputs="0")
        start["connections"].append(self._outer["id"])

    def finished(self) -> list[Node]:
        end = self._add("function_end", 1, name=self._name)
        self._outer["connections"].append(end["id"])
        end["connections"].append(self._add("capture_end", 0)["id"])
        return self._nodes

    def buffer(self, kind: str, buffer: Buffer) -> None:
        self._inside(kind, **buffer.params())

    def run(self, name: str, cb_bytes: int, programs: Programs) -> None:
        """A device program, with all its circular buffers as one."""
        start = self._inside("function_start", name=name, inputs="0")
        inside = [self._add("circular_buffer_deallocate_all", 2, device_id=str(DEVICE))]
        if cb_bytes:
            inside.append(
                self._add(
                    "circular_buffer_allocate",
                    2,
                    address=str(programs.bank.address),
                    size=str(cb_bytes),
                    core_range_set=core_range_set_text(programs.cores),
                    globally_allocated="0",
                    device_id=str(DEVICE),
                )
            )
        inside.append(self._add("function_end", 2, name=name))
        start["connections"] += [node["id"] for node in inside]

    def _inside(self, kind: str, **params: str) -> Node:
        node = self._add(kind, 2, **params)
        self._outer["connections"].append(node["id"])
        return node

    def _add(self, kind: str, level: int, **params: str) -> Node:
        number = len(self._nodes)
        node: Node = {
            "arguments": [],
            "connections": [],
            "counter": number,
            "input_tensors": [],
            "node_type": kind,
            "params": params,
            "stacking_level": level,
            "id": number,
        }
        self._nodes.append(node)
        return node
