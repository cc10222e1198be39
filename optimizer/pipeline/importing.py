"""The model is read, and what this board or TTNN cannot run is refused."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from optimizer.errors import OptionError, UnsupportedOpError
from optimizer.importers.passes.tile_padding import with_filled_padding
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Graph
from optimizer.ir.vocabulary import opdef
from optimizer.options import Options
from optimizer.pipeline.error_budget import check_budget
from optimizer.pipeline.work import Origin, Stage, Work
from optimizer.wording.units import counted

if TYPE_CHECKING:
    from optimizer.importers import ImportedModel
    from optimizer.importers.onnx_file import Survey

SHOWN_OPS = 5


@dataclass(frozen=True)
class Import(Stage):
    """Reads the model; a graph that is handed over gets fillings where its ops would see padding."""

    name: ClassVar[str] = "import"
    takes: ClassVar[tuple[str, ...]] = ()
    gives: ClassVar[tuple[str, ...]] = ("origin", "imported")

    input_shapes: Mapping[str, tuple[int, ...]]
    dims: Mapping[str, int]
    activations_dtype: str | None
    weights_dtype: str | None
    max_nodes: int
    max_model_bytes: int

    def apply(self, work: Work) -> None:
        source = work.source
        if isinstance(source, Graph):
            work.origin = Origin({"name": source.name, "sha256": None})
            work.imported = with_filled_padding(source)
            return
        if isinstance(source, Path | bytes):
            model = self.read(source, work.name, work.clock.poll)
        else:
            self._check_loaded(source)
            model = source
        record = {"name": model.graph.name, "sha256": model.sha256, "import": model.report.to_json()}
        if model.output_names not in ((), model.graph.outputs):
            record["output_names"] = list(model.output_names)
        work.origin = Origin(record, model.report.warnings, model.report.reasons, model.is_result)
        work.imported = model.graph

    def read(self, source: Path | bytes, name: str | None, checkpoint: Callable[[], None]) -> ImportedModel:
        """The model of a file or its bytes. InputError says what is wrong with it where."""
        from optimizer.importers import load

        return load(source, name=name, checkpoint=checkpoint, **self._chosen())

    def _check_loaded(self, model: ImportedModel) -> None:
        """OptionError where the model was read as something else than is asked for now."""
        given = model.options
        default = Import.of(Options())
        for name in ("input_shapes", "dims", "activations_dtype", "weights_dtype"):
            asked = self._chosen()[name]
            if given is None or getattr(self, name) == getattr(default, name) or asked == getattr(given, name):
                continue
            raise OptionError(
                f"the model was loaded with {name} {_shown(getattr(given, name))}, which cannot change to "
                f"{_shown(asked)} any more",
                node=name,
                alternatives=(f"load(..., {name}=...)", "optimize() of the model's file"),
            )

    def survey(self, source: Path | bytes) -> Survey:
        """What can be said of an ONNX model some of whose sizes have no number."""
        from optimizer.importers.loading import read_model_file
        from optimizer.importers.model import ImportOptions
        from optimizer.importers.onnx_file import survey

        options = ImportOptions(**self._chosen(), folder=source.parent if isinstance(source, Path) else None)
        return survey(source if isinstance(source, bytes) else read_model_file(source, options.limits), options)

    def _chosen(self) -> dict[str, Any]:
        from optimizer.importers.model import KEEP, ImportLimits

        activations, weights = self.activations_dtype, self.weights_dtype or self.activations_dtype
        if activations is not None and DType(activations).is_block_float:  # so does `activation-dtypes`
            activations = DType.BF16.value
        if weights is not None and DType(weights).is_block_float:  # the stage `weight-dtypes` chooses which ones
            weights = None if activations is None else DType.BF16.value
        return {
            "input_shapes": self.input_shapes,
            "dims": self.dims,
            "limits": ImportLimits(max_nodes=self.max_nodes, max_bytes=self.max_model_bytes),
            "activations_dtype": KEEP if activations is None else DType(activations),
            "weights_dtype": KEEP if weights is None else DType(weights),
        }


def _shown(value: Any) -> str:
    return str(dict(value) if isinstance(value, Mapping) else value)


def import_model(
    source: Path | bytes, options: Options, name: str | None = None, checkpoint: Callable[[], None] = lambda: None
) -> ImportedModel:
    """Read a model as the options say (input shapes, element types, limits).

    `checkpoint` is called all the time; what it raises ends the import.
    """
    return Import.of(options).read(source, name, checkpoint)


def survey_model(source: Path | bytes, options: Options) -> Survey:
    """What can be said of a model as long as sizes of its inputs have no number (`OpenSizesError` of an import)."""
    return Import.of(options).survey(source)


@dataclass(frozen=True)
class CheckSupport(Stage):
    """Refuses options that leave no room or exclude each other, and ops that TTNN lacks unless the host may."""

    name: ClassVar[str] = "support"
    takes: ClassVar[tuple[str, ...]] = ("imported", "origin")
    gives: ClassVar[tuple[str, ...]] = ()

    l1_small_bytes: int
    allow_host_ops: bool

    def apply(self, work: Work) -> None:
        device = work.opmodel.device
        limit = device.cb_limit_bytes
        if self.l1_small_bytes >= limit:
            message = f"'l1_small_bytes' must be less than the {limit} B of L1 on {device.name}"
            raise OptionError(f"{message}, got {self.l1_small_bytes}", node="l1_small_bytes", limit=limit)
        check_budget(work.options)
        if not self.allow_host_ops:
            _check_ops(work.imported, work.origin.reasons)


def _check_ops(graph: Graph, reasons: Mapping[str, str]) -> None:
    """UnsupportedOpError names the ops that TTNN lacks, with the importer's reason for the first."""
    lacking = [op for op in graph.run_ops() if opdef(op.op).opaque]
    if not lacking:
        return
    shown = ", ".join(f"'{op.id}' ({op.op})" for op in lacking[:SHOWN_OPS])
    more = f" and {len(lacking) - SHOWN_OPS} more" if len(lacking) > SHOWN_OPS else ""
    why = reasons.get(lacking[0].name)
    raise UnsupportedOpError(
        f"TTNN cannot run {counted(len(lacking), 'op')} of this graph: {shown}{more}; "
        + (f"'{lacking[0].name}': {why}; " if why else "")
        + "option 'allow_host_ops' runs them on the host, between two transfers",
        node=lacking[0].id,
    )
