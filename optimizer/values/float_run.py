"""A model's run in float32 with all its values kept: where its ops are linearised, and what noise is added to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, MutableMapping

from optimizer.errors import ExecutionError
from optimizer.ir.graph import Graph, Op, ValueKind
from optimizer.values.graph_values import results_of, source_array
from optimizer.values.judged import Part, judged_parts
from optimizer.values.noise import centred
from optimizer.values.reference.kinds import Array

_DIGITS = "float32"


class FloatRun:
    """What is there before the ops of a run: inputs, weights, and what is prepared of weights.

    Raises ExecutionError where an array is missing or an op has no reference.
    """

    def __init__(self, graph: Graph, given: Mapping[str, Array], poll: Callable[[], None] = lambda: None) -> None:
        self.graph = graph
        self.poll = poll
        self.ops = tuple(graph.run_ops())
        self.outputs = tuple(dict.fromkeys(v for v in graph.outputs if self.is_followed(v)))
        """Results of floats, each once."""
        self._sources = {
            v.id: source_array(v, given, _DIGITS) for v in graph.values.values() if graph.producer(v.id) is None
        }
        for op in graph.ops():
            if graph.is_const_eval(op):
                poll()
                self._sources.update(self.results(op, self._sources))
        read = {v for op in self.ops for v in op.inputs} | {*graph.inputs, *graph.outputs}
        self._sources = {v: array for v, array in self._sources.items() if v in read}

    def is_followed(self, value_id: str) -> bool:
        """Whether errors of a value can be asked for: floats that are no weights."""
        value = self.graph.value(value_id)
        return value.dtype.is_float and value.kind in (ValueKind.ACTIVATION, ValueKind.INPUT)

    def values(self) -> dict[str, Array]:
        """Every value that the ops of a run read or give. ExecutionError where an output is no number."""
        values = dict(self._sources)
        self.continued(values, self.ops)
        for v in self.outputs:
            centred(v, values[v])
        return values

    def continued(self, values: MutableMapping[str, Array], ops: Iterable[Op]) -> None:
        """Run these ops, adding what they give."""
        for op in ops:
            self.poll()
            values.update(self.results(op, values))

    def results(self, op: Op, values: Mapping[str, Array]) -> dict[str, Array]:
        """What one op gives, by value."""
        results = results_of(self.graph, op, [values[v] for v in op.inputs], _DIGITS)
        return {
            v: array.astype(_DIGITS, copy=False) if self.graph.value(v).dtype.is_float else array
            for v, array in zip(op.outputs, results, strict=True)
        }

    def judged(self, values: Mapping[str, Array]) -> dict[Part, Array]:
        """Part that is judged -> its numbers around their mean, of those parts that have a spread.

        ExecutionError where none has: no correlation can be asked then.
        """
        wanted = {part: centred(part.value, part.of(values[part.value])) for part in judged_parts(self.graph, values)}
        telling = {part: array for part, array in wanted.items() if array.any()}
        if not telling:
            raise ExecutionError("no output of the model holds numbers whose correlation could be asked")
        return telling
