"""One row per device program of a run, in the columns of tt-metal's `ops_perf_results` that tt-perf-report reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from math import prod

from optimizer.export.facts import KernelRun, as_run, dtype_name, query_of, tensor_spec
from optimizer.export.perf_csv.attributes import attributes_text, pairs_text
from optimizer.export.perf_csv.programs import Program, programs
from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.graph import Op
from optimizer.ir.opdef import ConfigFamily
from optimizer.ir.vocabulary import opdef
from optimizer.layouts.tiling import padded_shape
from optimizer.opmodel.analytical.windows.conv_weights import prepared_weights
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
_OF_OPERAND_0 = ("halo", "reshard", "tilize")
"""Families of programs that only bring operand 0 to where the op's own program reads it."""
SIGNPOST = "PREDICTED by ttopt, nothing was measured"
"""The first row, which tt-perf-report and ttnn-visualizer show above the ops."""
Row = dict[str, str]


def rows(result: OptimizedGraph) -> Iterator[Row]:
    """A signpost, then rows in the order of the run. Ops that launch nothing have none; ops on the host have no time.
    One of our kernels has one in the place of its ops.

    No two rows start at the same time: readers sort by it.
    """
    yield {"OP CODE": SIGNPOST, "OP TYPE": "signpost", "HOST START TS": "0"}
    clock, started, gap = 0, 0, round(gap_ns(result))
    for count, (row, time_ns) in enumerate(_launches(result)):
        latency = gap if count else 0
        started = max(clock + latency, started + 1)
        clock = started + (time_ns or 0)
        row |= {
            "GLOBAL CALL COUNT": str((count + 1) * 1024),
            "HOST START TS": str(started),
            "HOST END TS": str(clock),
            "HOST DURATION [ns]": "0",
        }
        if time_ns is not None:
            row |= dict.fromkeys(("DEVICE FW DURATION [ns]", "DEVICE KERNEL DURATION [ns]"), str(time_ns))
            row["OP TO OP LATENCY [ns]"] = str(latency)
        yield row


def gap_ns(result: OptimizedGraph) -> float:
    """What lies between two programs of a trace, by the totals of the plan; 0 where those do not say."""
    summary = result.summary_json()
    programs, traced = summary.get("programs"), summary.get("traced_ns")
    return (traced - summary["predicted_time_ns"]) / programs if programs and traced is not None else 0.0


def _launches(result: OptimizedGraph) -> Iterator[tuple[Row, int | None]]:
    """What a run launches, and how long it takes; None stands for an op on the host."""
    for step in as_run(result):
        if isinstance(step, KernelRun):
            if step.time_ns is not None:
                yield _kernel(result, step), step.time_ns
            continue
        launched: Iterable[Program | None] = programs(result, step)
        for program in (None,) if result.records[step.id].role is Role.HOST else launched:
            row = {**_identity(result, step, program), **_shapes(result, step, program)}
            yield row, None if program is None else program.time_ns


def _kernel(result: OptimizedGraph, kernel: KernelRun) -> Row:
    """One of our kernels: its attributes are its ops and its circular buffers on a core."""
    attributes = {
        "kernel": kernel.name,
        "ops": " ".join(op.id for op in kernel.ops),
        "circular_buffers": str(kernel.circular_buffers),
        "circular_buffer_bytes": str(kernel.circular_buffer_bytes),
    }
    row = {
        "TTOPT OP": kernel.place.id,
        "TTOPT NAME": kernel.name,
        "TTOPT ROLE": "kernel",
        "TTOPT BOUND": kernel.bound,
        "OP CODE": kernel.title,
        **_on_device(result, kernel.cores),
        "ATTRIBUTES": pairs_text(attributes),
    }
    for position, value in enumerate(kernel.inputs[: len(_TENSORS) - 1]):
        row |= _tensor(f"INPUT_{position}", tensor_spec(result, value))
    return row | _tensor("OUTPUT_0", tensor_spec(result, kernel.outputs[0]))


def _on_device(result: OptimizedGraph, cores: int | None) -> Row:
    return {
        "OP TYPE": "tt_dnn_device",
        "DEVICE ID": "0",
        "DEVICE ARCH": result.device.arch,
        "CORE COUNT": "" if cores is None else str(cores),
        "AVAILABLE WORKER CORE COUNT": str(result.device.num_cores),
    }


def _identity(result: OptimizedGraph, op: Op, program: Program | None) -> Row:
    record = result.records[op.id]
    row = {"TTOPT OP": op.id, "TTOPT NAME": op.name, "TTOPT ROLE": record.role.value}
    if program is None:
        return {**row, "OP CODE": f"(torch) {op.op}", "OP TYPE": "python_fallback"}
    predicted = record.predicted
    compute: Mapping[str, object] = dict(dict(query_attributes(result.graph, op, record.config)).get(COMPUTE) or ())  # type: ignore[arg-type]
    return {
        **row,
        "OP CODE": program.name,
        **_on_device(result, None if predicted is None else predicted.cores),
        "ATTRIBUTES": attributes_text(op, record.config, result.layouts[op.outputs[0]]),
        "MATH FIDELITY": str(compute.get("fid", "")),
        "TTOPT BOUND": "" if predicted is None else predicted.bound,
    }


def _shapes(result: OptimizedGraph, op: Op, program: Program | None) -> Row:
    """What the program reads and writes, a convolution its weights in the form that it reads them in."""
    found: list[tuple[TensorSpec, tuple[int, ...] | None]]
    found = [(tensor_spec(result, v), None) for v in op.inputs[: len(_TENSORS) - 1]]
    if program is not None and program.family in _OF_OPERAND_0:
        found = found[:1]
    elif program is not None and opdef(op.op).config is ConfigFamily.CONV2D:
        found = [found[0], *_convolution_weights(result, op)]
    row: Row = {}
    for position, (spec, padded) in enumerate(found):
        row |= _tensor(f"INPUT_{position}", spec, padded)
    return row | (_tensor("OUTPUT_0", tensor_spec(result, op.outputs[0])) if op.outputs else {})


def _convolution_weights(result: OptimizedGraph, op: Op) -> Iterator[tuple[TensorSpec, tuple[int, ...]]]:
    """Weights [O, I, kh, kw] as the matrix that multiplies rows of windows, then the bias; with their padded shapes."""
    query = query_of(result, op)
    weight = query.inputs[1].shape
    shapes = ((1, 1, prod(weight[1:]), weight[0]), (1, 1, 1, weight[0]))
    forms = prepared_weights(query, result.device, result.options.l1_small_bytes)
    for shape, form in zip(shapes, forms, strict=False):
        yield TensorSpec(shape, form.dtype, form.layout), form.shape


def _tensor(prefix: str, spec: TensorSpec, padded: tuple[int, ...] | None = None) -> Row:
    """The columns of one tensor; `padded` is given where pages do not say it."""
    layout = spec.layout
    padded = padded_shape(spec.shape, layout.page_layout) if padded is None else padded
    sizes = zip(_AXES, _four(padded), _four(spec.shape), strict=True)
    place = "HOST" if layout.is_host else f"{layout.memory.buffer_type.value}_{layout.memory_layout.value}".upper()
    return {
        **{f"{prefix}_{axis}_PAD[LOGICAL]": f"{size}[{plain}]" for axis, size, plain in sizes},
        f"{prefix}_LAYOUT": layout.page_layout.value.upper(),
        f"{prefix}_DATATYPE": dtype_name(spec.dtype),
        f"{prefix}_MEMORY": f"DEV_0_{place}",
    }


def _four(shape: tuple[int, ...]) -> tuple[int, ...]:
    """A shape in four dims, those before folded into the first."""
    if len(shape) <= 4:
        return (1,) * (4 - len(shape)) + shape
    return (prod(shape[:-3]), *shape[-3:])
