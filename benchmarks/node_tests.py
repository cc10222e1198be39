"""Every node test of ONNX imported and computed in float64: is what is taken right?

    python benchmarks/node_tests.py [--write classes.json] [--against classes.json]

Where a message says that an input has to be a constant, or the model of another opset, that is done and the case
judged again, so that a remedy that does not help shows: `remedied` counts what became of these.

A case is `right` (computed on the device as the test expects), `wrong`, on the `host` (an op that TTNN lacks, its
shapes as the test expects), `uncomputed` where none of our references takes the element types, or `refused`. Cases of
later opsets than are read are tried as the last one that is. Prints what is wrong, and with `--against` every case that
has another class than in a file written before; exit code 1 where one was right and is no more.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import warnings
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx.backend.test.case.node import collect_testcases

from optimizer.errors import ExecutionError, TtoptError
from optimizer.importers import load
from optimizer.importers.onnx_front_end import OPSETS
from optimizer.ir.dtype import DType
from optimizer.values.graph_values import graph_values

NEAR, LEVEL = 2e-3, 1 / 255
"""Difference relative to the largest element of the result: room for f16 data and for tanh GELUs; of bytes, one level,
as quotients in f32 may lie between two where those in float64 do not."""


CONSTANT = re.compile(r"export the model with ('.+') as (?:a constant|constants)")


def class_of(case: Any) -> str:
    """What becomes of a test case."""
    return _judged(_read(case), case)


def remedied(case: Any) -> str | None:
    """What becomes of a refused case with its message heeded; None where the message has no remedy for a program."""
    model, last = _read(case), None
    arrays = dict(zip([info.name for info in model.graph.input], map(_array, case.data_sets[0][0]), strict=False))
    for _ in range(len(arrays) + 1):
        found = _judged(model, case)
        named = CONSTANT.search(found)
        if not found.startswith("refused") or last == found:
            return found if last is not None else None
        names = re.findall(r"'([^']+)'", named[1]) if named is not None else []
        if names and set(names) <= set(arrays):
            model.graph.initializer.extend(onnx.numpy_helper.from_array(arrays[name], name) for name in names)
        elif "onnx.version_converter" in found:
            model = onnx.version_converter.convert_version(model, OPSETS[-1])
        else:
            return None if last is None else found
        last = found
    return found


def _read(case: Any) -> onnx.ModelProto:
    model: onnx.ModelProto = onnx.ModelProto.FromString(case.model.SerializeToString())
    for opset in model.opset_import:
        if opset.domain == "":
            opset.version = min(opset.version, OPSETS[-1])
    return model


def _judged(model: onnx.ModelProto, case: Any) -> str:
    inputs, expected = (list(map(_array, arrays)) for arrays in case.data_sets[0])
    try:
        imported = load(model.SerializeToString(), activations_dtype=DType.F32)
    except TtoptError as error:
        return f"refused: {error}"
    graph = imported.graph
    shapes = [graph.value(v).shape for v in graph.outputs]
    wanted = [array.shape or (1,) for array in expected]
    if shapes != wanted:
        return f"wrong: shapes {shapes}, not {wanted}"
    if imported.report.unsupported:
        return f"host: {imported.report.unsupported[0][0]}"
    names = [info.name for info in model.graph.input]
    given = {name: array for name, array in zip(names, inputs, strict=False) if name in graph.values}
    try:
        found = graph_values(graph, given)
    except (ExecutionError, OverflowError) as error:
        return f"uncomputed: {error}"
    differences = [_difference(one, other) for one, other in zip(found, expected, strict=True)]
    near = max([LEVEL if array.dtype == np.uint8 else NEAR for array in expected], default=NEAR)
    return "right" if max(differences, default=0.0) <= near else f"wrong: by {max(differences):.1e}"


def _array(given: Any) -> np.ndarray[Any, Any]:
    """An array of a test; nothing of a sequence, which is refused anyway."""
    if isinstance(given, onnx.TensorProto):
        given = onnx.numpy_helper.to_array(given)
    return np.empty(0) if given is None or isinstance(given, list) else np.asarray(given)


def _difference(found: np.ndarray[Any, Any], expected: np.ndarray[Any, Any]) -> float:
    """Largest difference of elements that are finite numbers in the test."""
    if expected.dtype.kind not in "biuf":
        return 0.0
    want, got = expected.astype(np.float64).reshape(-1), found.astype(np.float64).reshape(-1)
    plain = np.isfinite(want)
    scale = max(float(np.max(np.abs(want[plain]), initial=0.0)), 1e-6)
    return float(np.max(np.abs(want[plain] - got[plain]), initial=0.0)) / scale


def main() -> int:
    parser = argparse.ArgumentParser(description="ONNX's node tests, imported and computed")
    parser.add_argument("--write", type=Path, help="the class of every case as JSON")
    parser.add_argument("--against", type=Path, help="such a file of another revision")
    options = parser.parse_args()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        cases = {case.name: case for case in collect_testcases(None)}
        found = {name: class_of(case) for name, case in cases.items()}
        tried = {name: remedied(cases[name]) for name, text in found.items() if text.startswith("refused")}
    counts = Counter(text.partition(":")[0] for text in found.values())
    print(f"{len(found)} cases: " + ", ".join(f"{count} {name}" for name, count in sorted(counts.items())))
    after = Counter(text.partition(":")[0] for text in tried.values() if text is not None)
    print(
        f"remedied: {sum(after.values())}, now " + ", ".join(f"{count} {name}" for name, count in sorted(after.items()))
    )
    for name, text in (*found.items(), *tried.items()):
        if text is not None and (text.startswith("wrong") or (text is tried.get(name) and text.startswith("refused"))):
            print(f"  {name}: {text}")
    lost = 0
    for name, before in json.loads(options.against.read_text()).items() if options.against else ():
        if before.partition(":")[0] != (now := found.get(name, "gone")).partition(":")[0]:
            lost += before == "right"
            print(f"  {name}: was {before}, is {now}")
    if options.write:
        options.write.write_text(json.dumps(found, indent=0), encoding="utf-8")
    return int(lost > 0)


if __name__ == "__main__":
    sys.exit(main())
