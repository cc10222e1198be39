"""Whether a finished graph still computes the model it came from: `ttopt check --model`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from optimizer.importers.model import ImportedModel
from optimizer.layouts.input_overrides import with_overridden_inputs
from optimizer.layouts.overrides import parse_overrides
from optimizer.layouts.scalar_dtypes import apply_dtype_overrides
from optimizer.layouts.weight_dtypes import apply_block_weights
from optimizer.opmodel.cached import CachedOpModel
from optimizer.opmodel.registry import create
from optimizer.pipeline import block_dtype, dram_baseline, import_model, prepare, runnable, set_math_fidelity
from optimizer.result import OptimizedGraph
from optimizer.verify import Error
from optimizer.verify.figures import same
from optimizer.verify.same_model import differences


def model_errors(result: OptimizedGraph, source: Path | bytes) -> list[Error]:
    """Everything in which a result differs from the model in a file, imported anew with the result's options.

    Raises InputError where the file is no model, or none that these options fit.
    """
    model = import_model(source, result.options, result.graph.name)
    errors = [*_same_file(result, model), *_same_graph(result, model)]
    return errors or list(_same_baseline(result, model))


def _same_file(result: OptimizedGraph, model: ImportedModel) -> Iterator[Error]:
    """The file is the one that the document names, and the importer says of it what the document repeats."""
    stated = result.model.get("sha256")
    if stated not in (None, model.sha256):
        yield "model", f"the file has the SHA-256 {model.sha256}, the document names {stated}"
    given = result.model.get("import")
    if given is not None and not same(given, found := model.report.to_json()):
        names = sorted(k for k in {*given, *found} if not same(given.get(k), found.get(k)))
        yield "model.import", f"the import says otherwise: {', '.join(names)}"
    said = result.summary.get("warnings")
    for warning in model.report.warnings:
        if said is not None and warning not in said:
            yield "summary.warnings", f"lacks what the import says: {warning}"


def _same_graph(result: OptimizedGraph, model: ImportedModel) -> Iterator[Error]:
    """The graph computes the model as the options change it: element types, block weights, math fidelity."""
    options = result.options
    graph = model.graph.copy()
    if result.summary.get("rewritten"):
        opmodel = CachedOpModel(create(options.opmodel, result.device, options.l1_small_bytes))
        graph, _ = runnable(graph, {note["op"]: "" for note in result.summary["rewritten"]}, opmodel, options)
    graph.prune()
    texts = (options.override_output_layout, options.override_conv2d_config, options.insert_memreconfig)
    with_overridden_inputs(graph, options.override_output_layout)
    overrides = parse_overrides(graph, *texts)
    graph = apply_dtype_overrides(graph, overrides)
    prepared = apply_block_weights(graph, block_dtype(options))
    if options.math_fidelity is not None:
        set_math_fidelity(graph, options.math_fidelity)
    fixed: Mapping[str, Mapping[str, Any]] = overrides.conv2d_configs
    yield from differences(result, graph, prepared, fixed)


def _same_baseline(result: OptimizedGraph, model: ImportedModel) -> Iterator[Error]:
    """The model laid out in DRAM takes what the document says."""
    stated = result.summary.get("baselines")
    if not stated or result.options.opmodel != result.summary.get("opmodel"):
        return
    opmodel = CachedOpModel(create(result.options.opmodel, result.device, result.options.l1_small_bytes))
    totals = dram_baseline(prepare(model, opmodel, result.options), opmodel)
    found = {
        "dram_ns": totals.time_ns,
        "dram_read_bytes_total": totals.dram_read_bytes,
        "dram_write_bytes_total": totals.dram_write_bytes,
    }
    for name, value in found.items():
        if stated.get(name) not in (None, value):
            yield "summary.baselines", f"states {name} {stated[name]}, recomputed {value}"
