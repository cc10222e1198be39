"""Whether a finished graph still computes the model it came from: `ttopt check --model`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimizer.answers.solving_again import own_model
from optimizer.importers.model import ImportedModel
from optimizer.importers.passes.exact_values import widened
from optimizer.ir.graph import ValueKind
from optimizer.pipeline import Clock, import_model
from optimizer.pipeline.entrances import prepared
from optimizer.pipeline.stages import baseline, edits, rewriting
from optimizer.pipeline.work import Work, run
from optimizer.result import OptimizedGraph
from optimizer.result.summary import Rewritten
from optimizer.verify import Error
from optimizer.verify.figures import same
from optimizer.verify.same_model import differences


def model_errors(result: OptimizedGraph, source: Path | bytes) -> list[Error]:
    """Everything in which a result differs from the model in a file, imported again with the result's options.

    Raises InputError where the file is no model, or none that these options fit.
    """
    model = import_model(source, result.options, result.graph.name)
    errors = [*_same_file(result, model), *_same_graph(result, model)]
    return errors or _same_preparation(result, model)


def _same_file(result: OptimizedGraph, model: ImportedModel) -> Iterator[Error]:
    """The file is the one that the document names, and the importer says of it what the document repeats."""
    stated = result.model.get("sha256")
    if stated not in (None, model.sha256):
        yield "model", f"the file has the SHA-256 {model.sha256}, the document names {stated}"
    given = result.model.get("import")
    if given is not None and not same(given, found := model.report.to_json()):
        names = sorted(k for k in {*given, *found} if not same(given.get(k), found.get(k)))
        yield "model.import", f"the import says otherwise: {', '.join(names)}"
    if result.output_names != (model.output_names or model.graph.outputs):
        yield "model.output_names", "are not what the model calls its outputs"
    said = result.summary_json().get("warnings")
    for warning in model.report.warnings:
        if said is not None and warning not in said:
            yield "summary.warnings", f"lacks what the import says: {warning}"


def _same_graph(result: OptimizedGraph, model: ImportedModel) -> Iterator[Error]:
    """The graph computes the model as the options change it: element types, block weights, math fidelity."""
    work = Work(model, result.options, own_model(result), Clock())
    work.imported = model.graph
    work.imported = rewriting(result.options).again_as(work, _rewritten(result))
    precision = result.summary_json().get("precision") or {}
    work.imported = widened(work.imported, precision.get("raised") or ())
    run(edits(result.options), work)
    fixed: Mapping[str, Mapping[str, Any]] = work.overrides.conv2d_configs
    yield from differences(result, work.graph, work.conv_weights, fixed)


def _rewritten(result: OptimizedGraph) -> list[Rewritten]:
    return [Rewritten.model_validate(note) for note in result.summary_json().get("rewritten", ())]


def _same_preparation(result: OptimizedGraph, model: ImportedModel) -> list[Error]:
    """The model as it is prepared for a policy has the pages and element types of the result."""
    if result.options.opmodel != result.summary_json().get("opmodel", result.options.opmodel):
        return []
    work = prepared(model, own_model(result), result.options, stated=_rewritten(result))
    return [*_same_pages(result, work), *_same_dtypes(result, work), *_same_baseline(result, work)]


def _same_pages(result: OptimizedGraph, work: Work) -> Iterator[Error]:
    """What is computed on every run is in tiles or rows as the options have it; weights are laid out once."""
    for v, page in work.pages.items():
        computed = v in result.layouts and result.graph.value(v).kind is ValueKind.ACTIVATION
        if computed and result.layouts[v].page_layout is not page:
            yield v, f"lies in {result.layouts[v].page_layout.value}, the options lead to {page.value}"


def _same_dtypes(result: OptimizedGraph, work: Work) -> Iterator[Error]:
    """Blocks where the options ask for them, unless an error budget chooses."""
    if result.options.least_pcc is None:
        for v, value in work.problem.graph.values.items():
            if v in result.graph.values and (found := result.graph.value(v).dtype) is not value.dtype:
                yield v, f"is in {found.value}, the options lead to {value.dtype.value}"


def _same_baseline(result: OptimizedGraph, work: Work) -> Iterator[Error]:
    """The model laid out in DRAM takes what the document says."""
    stated = result.summary_json().get("baselines")
    if not stated:
        return
    baseline().apply(work)
    totals = work.baseline
    found = {
        "dram_ns": totals.time_ns,
        "dram_read_bytes_total": totals.dram_read_bytes,
        "dram_write_bytes_total": totals.dram_write_bytes,
    }
    for name, value in found.items():
        if stated.get(name) not in (None, value):
            yield "summary.baselines", f"states {name} {stated[name]}, recomputed {value}"
