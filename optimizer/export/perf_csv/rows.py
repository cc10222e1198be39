"""One row per device program of a run, in the columns of tt-metal's `ops_perf_results` that tt-perf-report reads."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from optimizer.export.perf_csv.attributes import attributes_text
from optimizer.export.perf_csv.device_ops import op_code
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.memory_config import BufferType, PageLayout, interleaved
from optimizer.layouts.tiling import padded_shape
from optimizer.opmodel.base import TensorSpec
from optimizer.opmodel.pricing import query_attributes
from optimizer.result import OptimizedGraph, Role

_TENSORS = ("INPUT_0", "INPUT_1", "INPUT_2", "OUTPUT_0")
_AXES = ("W", "Z", "Y", "X")
COLUMNS = (
    "OP CODE", "OP TYPE", "GLOBAL CALL COUNT", "DEVICE ID", "DEVICE ARCH", "ATTRIBUTES", "MATH FIDELITY", "CORE COUNT",
    "AVAILABLE WORKER CORE COUNT", "HOST START TS", "HOST END TS", "HOST DURATION [ns]", "DEVICE FW DURATION [ns]",
    "DEVICE KERNEL DURATION [ns]", "OP TO OP LATENCY [ns]",
    *(f"{t}_{c}" for t in _TENSORS for c in (*(f"{a}_PAD[LOGICAL]" for a in _AXES), "LAYOUT", "DATATYPE", "MEMORY")),
    "TTOPT OP", "TTOPT NAME", "TTOPT ROLE", "TTOPT BOUND",
)  # fmt: skip
"""The last four are ours; tools that do not know them leave them out."""
LAUNCHES_NOTHING = ("view", "transfer")
"""Families of programs that are none."""
_DTYPES = {
    DType.F32: "FLOAT32",
    DType.BF16: "BFLOAT16",
    DType.BFP8_B: "BFLOAT8_B",
    DType.BFP4_B: "BFLOAT4_B",
    DType.U32: "UINT32",
    DType.I32: "INT32",
    DType.U16: "UINT16",
    DType.U8: "UINT8",
}
_PREPARED = interleaved(BufferType.DRAM)
"""Where a convolution's weights are once they are prepared."""
Row = dict[str, str]


@dataclass(frozen=True)
class _Program:
    """A device program of an op."""

    family: str
    time_ns: int


def rows(result: OptimizedGraph) -> Iterator[Row]:
    """Rows in the order of the run. Ops that launch nothing have none; ops on the host have one without a time."""
    clock, gap = 0, round(gap_ns(result))
    count = 0
    for op in result.graph.ops():
        if result.graph.is_const_eval(op):
            continue
        for program in _programs(result, op):
            latency = gap if count else 0
            clock += latency
            row = {
                **_identity(result, op, program),
                **_shapes(result, op, None if program is None else program.family),
                "GLOBAL CALL COUNT": str((count + 1) * 1024),
                "HOST START TS": str(clock),
            }
            if program is not None:
                clock += program.time_ns
                row |= dict.fromkeys(("DEVICE FW DURATION [ns]", "DEVICE KERNEL DURATION [ns]"), str(program.time_ns))
                row["OP TO OP LATENCY [ns]"] = str(latency)
            row["HOST END TS"] = str(clock)
            row["HOST DURATION [ns]"] = "0"
            count += 1
            yield row


def gap_ns(result: OptimizedGraph) -> float:
    """What lies between two programs of a trace, by the totals of the plan; 0 where those do not say."""
    summary = result.summary_json()
    programs, traced = summary.get("programs"), summary.get("traced_ns")
    return (traced - summary["predicted_time_ns"]) / programs if programs and traced is not None else 0.0


def _programs(result: OptimizedGraph, op: Op) -> Iterator[_Program | None]:
    """The device programs of an op; None stands for the op itself on the host."""
    record = result.records[op.id]
    if record.role is Role.HOST:
        yield None
    elif record.predicted is not None and record.predicted.parts:
        for part in record.predicted.parts:
            if part.name not in LAUNCHES_NOTHING:
                yield _Program(part.name, round(part.time_ns))
    elif record.predicted is not None and record.role not in (Role.VIEW, Role.TRANSFER):
        yield _Program(opdef(op.op).cost_class.value, record.predicted.time_ns)


def _identity(result: OptimizedGraph, op: Op, program: _Program | None) -> Row:
    record = result.records[op.id]
    row = {"TTOPT OP": op.id, "TTOPT NAME": op.name, "TTOPT ROLE": record.role.value}
    if program is None:
        return {**row, "OP CODE": f"(torch) {op.op}", "OP TYPE": "python_fallback"}
    target = _spec(result, op.outputs[0])
    source = _spec(result, op.inputs[0]) if op.inputs else None
    predicted = record.predicted
    compute: Mapping[str, object] = dict(dict(query_attributes(result.graph, op, record.config)).get(COMPUTE) or ())  # type: ignore[arg-type]
    return {
        **row,
        "OP CODE": op_code(op, program.family, source, target),
        "OP TYPE": "tt_dnn_device",
        "DEVICE ID": "0",
        "DEVICE ARCH": result.device.arch,
        "ATTRIBUTES": attributes_text(op, record.config, target.layout),
        "MATH FIDELITY": str(compute.get("fid", "")),
        "CORE COUNT": "" if predicted is None else str(predicted.cores),
        "AVAILABLE WORKER CORE COUNT": str(result.device.num_cores),
        "TTOPT BOUND": "" if predicted is None else predicted.bound,
    }


def _shapes(result: OptimizedGraph, op: Op, family: str | None) -> Row:
    """What the program reads and writes: of a convolution's matmul the matrices that it multiplies."""
    conv = opdef(op.op).config is ConfigFamily.CONV2D and family in ("conv", "matmul")
    row: Row = {}
    for position, value in enumerate(op.inputs[: len(_TENSORS) - 1]):
        spec = _spec(result, value)
        if position and spec.layout.is_host and family is not None:
            spec = TensorSpec(
                _prepared_shape(spec.shape) if position == 1 and conv else spec.shape, spec.dtype, _PREPARED
            )
        row |= _tensor(f"INPUT_{position}", spec)
    return row | (_tensor("OUTPUT_0", _spec(result, op.outputs[0])) if op.outputs else {})


def _prepared_shape(weight: tuple[int, ...]) -> tuple[int, ...]:
    """Of weights [O, I, kh, kw] the matrix that multiplies rows of windows."""
    return (1, 1, prod(weight[1:]), weight[0])


def _spec(result: OptimizedGraph, value_id: str) -> TensorSpec:
    value = result.graph.value(value_id)
    return TensorSpec(value.shape, value.dtype, result.layouts[value_id])


def _tensor(prefix: str, spec: TensorSpec) -> Row:
    layout = spec.layout
    sizes = zip(_AXES, _four(padded_shape(spec.shape, layout.page_layout)), _four(spec.shape), strict=True)
    place = "HOST" if layout.is_host else f"{layout.memory.buffer_type.value}_{layout.memory_layout.value}".upper()
    return {
        **{f"{prefix}_{axis}_PAD[LOGICAL]": f"{padded}[{plain}]" for axis, padded, plain in sizes},
        f"{prefix}_LAYOUT": "TILE" if layout.page_layout is PageLayout.TILE else "ROW_MAJOR",
        f"{prefix}_DATATYPE": _DTYPES[spec.dtype],
        f"{prefix}_MEMORY": f"DEV_0_{place}",
    }


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape in four dims, those before folded into the first."""
    if len(shape) <= 4:
        return (1,) * (4 - len(shape)) + shape
    return (prod(shape[:-3]), *shape[-3:])
