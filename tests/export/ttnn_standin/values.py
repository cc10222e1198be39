"""Enumerations and plain values of TTNN, made from the recorded signatures."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from ttnn_standin.errors import Refused
from ttnn_standin.signatures import RECORD, bound


@dataclass(frozen=True)
class Member:
    """A member of an enumeration."""

    kind: str
    name: str

    def __repr__(self) -> str:
        return f"{self.kind}.{self.name}"


class Enumeration:
    """An enumeration; a member that the wheel lacks is an error."""

    def __init__(self, kind: str) -> None:
        self._kind = kind.rpartition(".")[2]
        for name in RECORD["enums"][kind]:
            setattr(self, name, Member(self._kind, name))

    def __getattr__(self, name: str) -> NoReturn:
        raise Refused(f"{self._kind} has no member {name}")


ENUMS = {kind: Enumeration(kind) for kind in RECORD["enums"]}
DataType, Layout = ENUMS["DataType"], ENUMS["Layout"]
TensorMemoryLayout, BufferType = ENUMS["TensorMemoryLayout"], ENUMS["BufferType"]

TILE, ROW_MAJOR = Layout.TILE, Layout.ROW_MAJOR
BFLOAT16, FLOAT32 = DataType.BFLOAT16, DataType.FLOAT32
BLOCK_FLOATS = (DataType.BFLOAT8_B, DataType.BFLOAT4_B)
FLOATS = (BFLOAT16, FLOAT32, *BLOCK_FLOATS)
INTEGERS = {
    DataType.UINT32: (0, 2**32 - 1),
    DataType.INT32: (-(2**31), 2**31 - 1),
    DataType.UINT16: (0, 2**16 - 1),
    DataType.UINT8: (0, 255),
}
"""Integer types and their ranges."""


class Value:
    """An immutable value of one of TTNN's classes: its constructor's arguments."""

    def __init__(self, kind: str, fields: Mapping[str, Any]) -> None:
        self.kind = kind
        self.fields = dict(fields)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name not in self.fields:
            raise AttributeError(f"a {self.kind} has no {name}")
        return self.fields[name]

    def is_sharded(self) -> bool:
        """`MemoryConfig.is_sharded`."""
        if self.kind != "MemoryConfig":
            raise AttributeError(f"a {self.kind} has no is_sharded")
        return bool(self.fields["memory_layout"] != TensorMemoryLayout.INTERLEAVED)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Value):
            return NotImplemented
        return (self.kind, self.fields) == (other.kind, other.fields)

    def __hash__(self) -> int:
        return hash((self.kind, repr(self.fields)))

    def __repr__(self) -> str:
        return f"{self.kind}({', '.join(f'{k}={v!r}' for k, v in self.fields.items())})"


class Type:
    """A class of TTNN's, as what makes its values."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __call__(self, *positional: Any, **named: Any) -> Value:
        fields = bound(self.kind, RECORD["types"][self.kind], positional, named)
        return Value(self.kind, {name: tuple(v) if isinstance(v, list) else v for name, v in fields.items()})


class Chosen:
    """The shard spec of a result whose shards the op chose by itself: equal to any."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Chosen) or (isinstance(other, Value) and other.kind == "ShardSpec")

    def __hash__(self) -> int:
        return 0

    def __repr__(self) -> str:
        return "<chosen by the op>"


CHOSEN = Chosen()


def memory_config(layout: Member, buffer: Member, spec: Value | Chosen | None = None) -> Value:
    """A `MemoryConfig`."""
    return Value("MemoryConfig", {"memory_layout": layout, "buffer_type": buffer, "shard_spec": spec})


DRAM = memory_config(TensorMemoryLayout.INTERLEAVED, BufferType.DRAM)
L1 = memory_config(TensorMemoryLayout.INTERLEAVED, BufferType.L1)


def is_chosen(memory: Value | None) -> bool:
    """Whether the shards of a memory config are some that an op chose by itself."""
    return memory is not None and isinstance(memory.shard_spec, Chosen)


def is_sharded(memory: Value) -> bool:
    """Whether a memory config is sharded."""
    return bool(memory.memory_layout != TensorMemoryLayout.INTERLEAVED)
