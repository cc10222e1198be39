"""Programs as JSON: the format of register-allocation cases.

    {"cases": [{"id", "program": {"max_vgprs", "max_sgprs", "reserved_vgprs": [n], "reserved_sgprs": [n],
        "precolored": {"ks0": 2}, "loop_control_sregs": [n], "accumulator_vregs": [n], "name", "launch": {...},
        "instructions": [{"label"} | {"name", "defs": [operand], "uses": [operand], "target", "modifiers",
                                      "comment"}]}}]}

Operands are written as in `text`, immediates with `#`. `launch` holds the fields of `ir.Launch`; without it, four waves
are assumed. `max_agprs` and `accumulator_aregs` are the same for accumulation VGPRs.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from optimizer.errors import FormatError, InputError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Item, Label, Launch, Program
from optimizer.kernels.amdgpu.operands import Immediate, Operand, VirtualReg
from optimizer.kernels.amdgpu.text import parse_operand

_LOG = logging.getLogger(__name__)
_PROGRAM_KEYS = frozenset((
    "max_vgprs", "max_sgprs", "reserved_vgprs", "reserved_sgprs", "instructions", "precolored", "loop_control_sregs",
    "accumulator_vregs", "accumulator_aregs", "max_agprs", "name", "launch",
))  # fmt: skip
UNKNOWN_LAUNCH = Launch((256, 1, 1))
"""Of a program that does not say: several waves, so that barriers keep their meaning."""
_INSTRUCTION_KEYS = frozenset(("name", "defs", "uses", "target", "modifiers", "comment"))


@dataclass(frozen=True)
class ProgramCase:
    """One case of a document."""

    id: str
    kind: str
    record: Any
    """The program, not read yet: a case that cannot be read is no reason not to look at the others. A `Program` if it
    was written in the textual form."""

    @property
    def program(self) -> Program:
        """FormatError and OperandError name the case and the field."""
        return self.record if isinstance(self.record, Program) else read_program(self.record, self.id)


def read_cases(document: Any) -> tuple[ProgramCase, ...]:
    """Every case that has a program. FormatError if it is no document of cases."""
    cases = document.get("cases") if isinstance(document, Mapping) else document
    if not isinstance(cases, Sequence) or isinstance(cases, str):
        raise FormatError("a document of programs has a list 'cases'", node="cases")
    found = []
    for number, record in enumerate(cases):
        if not isinstance(record, Mapping):
            raise FormatError("a case is an object", node=f"cases[{number}]")
        if "program" in record:
            place = str(record.get("id", f"cases[{number}]"))
            found.append(ProgramCase(place, str(record.get("kind", "alloc")), record["program"]))
    return tuple(found)


def read_program(document: Any, place: str = "program") -> Program:
    """A decoded program. FormatError and OperandError name the place."""
    if not isinstance(document, Mapping):
        raise FormatError("a program is an object", node=place)
    if unknown := sorted(set(document) - _PROGRAM_KEYS):
        _LOG.warning("%s: fields of the program that nothing reads: %s", place, ", ".join(unknown))
    items = document.get("instructions")
    if not isinstance(items, Sequence) or isinstance(items, str):
        raise FormatError("a program has a list 'instructions'", node=place)
    redefinable = [VirtualReg("s", n) for n in _numbers(document, "loop_control_sregs", place)]
    redefinable += [VirtualReg("v", n) for n in _numbers(document, "accumulator_vregs", place)]
    redefinable += [VirtualReg("a", n) for n in _numbers(document, "accumulator_aregs", place)]
    default = Program(())
    return Program(
        tuple(_item(item, f"{place}: instruction {n}") for n, item in enumerate(items)),
        str(document.get("name", default.name)),
        _number(document, "max_vgprs", default.max_vgprs, place),
        _number(document, "max_sgprs", default.max_sgprs, place),
        _number(document, "max_agprs", default.max_agprs, place),
        reserved_vgprs=frozenset(_numbers(document, "reserved_vgprs", place)),
        reserved_sgprs=frozenset(_numbers(document, "reserved_sgprs", place)),
        precolored=_precolored(document.get("precolored", {}), place),
        redefinable=frozenset(redefinable),
        launch=_launch(document["launch"], place) if "launch" in document else UNKNOWN_LAUNCH,
    )


def program_json(program: Program) -> dict[str, Any]:
    """The document that `read_program` reads back."""
    document: dict[str, Any] = {
        "name": program.name,
        "max_vgprs": program.max_vgprs,
        "max_sgprs": program.max_sgprs,
        "reserved_vgprs": sorted(program.reserved_vgprs),
        "reserved_sgprs": sorted(program.reserved_sgprs),
        "precolored": {str(r): n for r, n in program.precolored},
        "loop_control_sregs": sorted(r.number for r in program.redefinable if r.file == "s"),
        "accumulator_vregs": sorted(r.number for r in program.redefinable if r.file == "v"),
        "launch": _launch_json(program.launch),
        "instructions": [_item_json(item) for item in program.body],
    }
    if program.max_agprs != Program(()).max_agprs:
        document["max_agprs"] = program.max_agprs
    if accumulators := sorted(r.number for r in program.redefinable if r.file == "a"):
        document["accumulator_aregs"] = accumulators
    return document


def _item(record: Any, place: str) -> Item:
    if not isinstance(record, Mapping):
        raise FormatError("an instruction is an object", node=place)
    if "label" in record:
        return Label(str(record["label"]))
    if record.get("name") == "_label":
        return Label(str(record.get("target") or record.get("comment")))
    if not isinstance(record.get("name"), str):
        raise FormatError("an instruction has a 'name' or a 'label'", node=place)
    if unknown := sorted(set(record) - _INSTRUCTION_KEYS):
        raise FormatError(f"unknown field '{unknown[0]}'", node=place, alternatives=sorted(_INSTRUCTION_KEYS))
    uses, target = [], record.get("target")
    for word in _strings(record, "uses", place):
        if word.startswith("@"):
            target = word[1:]
        else:
            uses.append(_operand(word, place))
    return Instruction(
        record["name"],
        tuple(_operand(word, place) for word in _strings(record, "defs", place)),
        tuple(uses),
        None if target is None else str(target).removeprefix("@"),
        # As in the text: `offen` follows from the address.
        tuple(word for word in _strings(record, "modifiers", place) if word != "offen"),
        str(record.get("comment") or ""),
    )


def _item_json(item: Item) -> dict[str, Any]:
    if isinstance(item, Label):
        return {"label": item.name}
    record: dict[str, Any] = {
        "name": item.name,
        "defs": [_operand_json(o) for o in item.defs],
        "uses": [_operand_json(o) for o in item.uses],
    }
    if item.target is not None:
        record["target"] = item.target
    if item.modifiers:
        record["modifiers"] = list(item.modifiers)
    if item.comment:
        record["comment"] = item.comment
    return record


def _operand_json(operand: Operand) -> str:
    return f"#{operand}" if isinstance(operand, Immediate) else str(operand)


def _operand(text: str, place: str) -> Operand:
    try:
        return parse_operand(text)
    except InputError as error:
        raise type(error)(error.message, node=place, alternatives=error.alternatives) from None


def _launch(record: Any, place: str) -> Launch:
    if not isinstance(record, Mapping):
        raise FormatError("'launch' is an object", node=place)
    default = Launch()
    group = tuple(_numbers(record, "workgroup", place)) or default.workgroup
    if len(group) != 3:
        raise FormatError("'workgroup' has threads in x, y and z", node=place)
    given = record.get("arguments", ())
    if isinstance(given, str) or not isinstance(given, Sequence):
        raise FormatError("'arguments' is a list", node=place)
    arguments = tuple(_argument(a, n, place) for n, a in enumerate(given))
    return Launch(
        (group[0], group[1], group[2]),
        arguments,
        _number(record, "workgroup_ids", default.workgroup_ids, place),
        _number(record, "lds_bytes", 0, place),
        _number(record, "scratch_bytes", 0, place),
    )


def _argument(record: Any, number: int, place: str) -> Argument:
    if not isinstance(record, Mapping):
        raise FormatError("an argument is an object with 'name', 'size' and 'pointer'", node=place)
    pointer = record.get("pointer", True)
    if not isinstance(pointer, bool):
        raise FormatError("'pointer' is true or false", node=place)
    return Argument(str(record.get("name", f"arg{number}")), _number(record, "size", 8, place), pointer)


def _launch_json(launch: Launch) -> dict[str, Any]:
    return {
        "workgroup": list(launch.workgroup),
        "arguments": [{"name": a.name, "size": a.size, "pointer": a.pointer} for a in launch.arguments],
        "workgroup_ids": launch.workgroup_ids,
        "lds_bytes": launch.lds_bytes,
        "scratch_bytes": launch.scratch_bytes,
    }


def _precolored(record: Any, place: str) -> tuple[tuple[VirtualReg, int], ...]:
    if not isinstance(record, Mapping):
        raise FormatError("'precolored' maps virtual registers to numbers", node=place)
    found = []
    for name, number in record.items():
        register = _operand(str(name), place)
        if not isinstance(register, VirtualReg) or not isinstance(number, int):
            raise FormatError(f"'precolored' maps virtual registers to numbers, not {name} to {number}", node=place)
        found.append((register, number))
    return tuple(sorted(found))


def _strings(record: Mapping[str, Any], key: str, place: str) -> list[str]:
    values = record.get(key, ())
    if isinstance(values, str) or not isinstance(values, Sequence) or not all(isinstance(v, str) for v in values):
        raise FormatError(f"'{key}' is a list of strings", node=place)
    return list(values)


def _numbers(record: Mapping[str, Any], key: str, place: str) -> list[int]:
    values = record.get(key, ())
    if not isinstance(values, Sequence) or not all(isinstance(v, int) and v >= 0 for v in values):
        raise FormatError(f"'{key}' is a list of numbers", node=place)
    return list(values)


def _number(record: Mapping[str, Any], key: str, default: int, place: str) -> int:
    value = record.get(key, default)
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise FormatError(f"'{key}' is a number", node=place)
    return value
