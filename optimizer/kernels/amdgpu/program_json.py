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
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from optimizer.errors import InputError
from optimizer.kernels.amdgpu.ir import Argument, Instruction, Item, Label, Launch, Program
from optimizer.kernels.amdgpu.operands import Immediate, Operand, VirtualReg
from optimizer.kernels.amdgpu.text import MAX_ARGUMENTS, MAX_ITEMS, MAX_NUMBER, MAX_REGISTERS, parse_operand
from optimizer.process.json_document import Node, records

_LOG = logging.getLogger(__name__)
_PROGRAM_KEYS = frozenset((
    "max_vgprs", "max_sgprs", "reserved_vgprs", "reserved_sgprs", "instructions", "precolored", "loop_control_sregs",
    "accumulator_vregs", "accumulator_aregs", "max_agprs", "name", "launch",
))  # fmt: skip
UNKNOWN_LAUNCH = Launch((256, 1, 1))
"""Of a program that does not say: several waves, so that barriers keep their meaning."""
_LAUNCH_KEYS = frozenset(("workgroup", "arguments", "workgroup_ids", "lds_bytes", "scratch_bytes"))
MAX_OPERANDS = 64
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
    """Every case that has a program. FormatError if it is no document of cases, or two have the same id."""
    found: dict[str, ProgramCase] = {}
    for record in records(document):
        fields = record.any_fields()
        if "program" not in fields:
            continue
        name = fields["id"].text() if "id" in fields else record.place
        kind = fields["kind"].text() if "kind" in fields else "alloc"
        if name in found:
            raise record.error(f"the id '{name}' is that of another case, too")
        found[name] = ProgramCase(name, kind, fields["program"])
    return tuple(found.values())


def read_program(document: Any, place: str = "program") -> Program:
    """A decoded program. FormatError, LimitError and OperandError name the place."""
    node = document if isinstance(document, Node) else Node(document, place)
    fields = node.any_fields(("instructions",))
    if unknown := sorted(set(fields) - _PROGRAM_KEYS):
        _LOG.warning("%s: fields that nothing reads: %s", node.place or "program", ", ".join(unknown))
    default = Program(())
    redefinable = [
        VirtualReg(file, n)
        for file, key in (("s", "loop_control_sregs"), ("v", "accumulator_vregs"), ("a", "accumulator_aregs"))
        for n in _numbers(fields, key, MAX_NUMBER)
    ]
    return Program(
        tuple(_item(item) for item in fields["instructions"].items(MAX_ITEMS)),
        fields["name"].text() if "name" in fields else default.name,
        _number(fields, "max_vgprs", default.max_vgprs, MAX_REGISTERS),
        _number(fields, "max_sgprs", default.max_sgprs, MAX_REGISTERS),
        _number(fields, "max_agprs", default.max_agprs, MAX_REGISTERS),
        reserved_vgprs=frozenset(_numbers(fields, "reserved_vgprs", MAX_REGISTERS)),
        reserved_sgprs=frozenset(_numbers(fields, "reserved_sgprs", MAX_REGISTERS)),
        precolored=_precolored(fields["precolored"]) if "precolored" in fields else (),
        redefinable=frozenset(redefinable),
        launch=_launch(fields["launch"]) if "launch" in fields else UNKNOWN_LAUNCH,
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


def _item(node: Node) -> Item:
    fields = node.any_fields()
    if "label" in fields:
        return Label(node.fields(("label", "comment"))["label"].text())
    if "name" not in fields:
        raise node.error("an instruction has a 'name' or a 'label'")
    fields = node.fields(_INSTRUCTION_KEYS)
    name = fields["name"].text()
    given = fields.get("target")
    target = None if given is None or given.is_null else given.text()
    comment = _comment(fields)
    if name == "_label":
        return Label(target or comment)
    uses = []
    for word in _words(fields, "uses"):
        if word.text().startswith("@"):
            target = word.text()[1:]
        else:
            uses.append(_operand(word))
    return Instruction(
        name,
        tuple(_operand(word) for word in _words(fields, "defs")),
        tuple(uses),
        None if target is None else target.removeprefix("@"),
        # As in the text: `offen` follows from the address.
        tuple(word.text() for word in _words(fields, "modifiers") if word.text() != "offen"),
        comment,
    )


def _comment(fields: Mapping[str, Node]) -> str:
    given = fields.get("comment")
    return "" if given is None or given.is_null else given.text()


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


def _operand(node: Node) -> Operand:
    try:
        return parse_operand(node.text())
    except InputError as error:
        where = node.place
        raise type(error)(error.message, node=where, limit=error.limit, alternatives=error.alternatives) from None


def _launch(node: Node) -> Launch:
    fields = node.fields(_LAUNCH_KEYS)
    default = Launch()
    group = _numbers(fields, "workgroup", MAX_NUMBER) or list(default.workgroup)
    if len(group) != 3:
        raise fields["workgroup"].error("threads in x, y and z are due")
    given = fields["arguments"].items(MAX_ARGUMENTS) if "arguments" in fields else ()
    return Launch(
        (group[0], group[1], group[2]),
        tuple(_argument(a, n) for n, a in enumerate(given)),
        _number(fields, "workgroup_ids", default.workgroup_ids, 3),
        _number(fields, "lds_bytes", 0, MAX_NUMBER),
        _number(fields, "scratch_bytes", 0, MAX_NUMBER),
    )


def _argument(node: Node, number: int) -> Argument:
    fields = node.fields(("name", "size", "pointer"))
    return Argument(
        fields["name"].text() if "name" in fields else f"arg{number}",
        _number(fields, "size", 8, 8),
        fields["pointer"].boolean() if "pointer" in fields else True,
    )


def _launch_json(launch: Launch) -> dict[str, Any]:
    return {
        "workgroup": list(launch.workgroup),
        "arguments": [{"name": a.name, "size": a.size, "pointer": a.pointer} for a in launch.arguments],
        "workgroup_ids": launch.workgroup_ids,
        "lds_bytes": launch.lds_bytes,
        "scratch_bytes": launch.scratch_bytes,
    }


def _precolored(node: Node) -> tuple[tuple[VirtualReg, int], ...]:
    found = []
    for name, number in node.any_fields().items():
        register = _operand(Node(name, number.place))
        if not isinstance(register, VirtualReg):
            raise number.error(f"{register} is no virtual register, which 'precolored' maps to numbers")
        found.append((register, number.integer(0, MAX_REGISTERS)))
    if len({register for register, _ in found}) < len(found):
        raise node.error("names a register twice")
    return tuple(sorted(found))


def _words(fields: Mapping[str, Node], key: str) -> list[Node]:
    return fields[key].items(MAX_OPERANDS) if key in fields else []


def _numbers(fields: Mapping[str, Node], key: str, most: int) -> list[int]:
    return [n.integer(0, most) for n in fields[key].items(MAX_ITEMS)] if key in fields else []


def _number(fields: Mapping[str, Node], key: str, default: int, most: int) -> int:
    return fields[key].integer(0, most) if key in fields else default
