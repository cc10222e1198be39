"""What an op is asked to compute with and to give, where that is not what the graph states."""

from __future__ import annotations

from dataclasses import dataclass

from optimizer.ir.compute_config import COMPUTE
from optimizer.ir.dtype import DType
from optimizer.ir.graph import Attr, Op
from optimizer.ir.opdef import RESULT_DTYPE
from optimizer.ir.vocabulary import opdef


@dataclass(frozen=True)
class Precision:
    """Precision of one way to run an op; the element types of its operands are those of their layouts."""

    compute: Attr | None = None
    """The compute config that its call states, as attribute `compute`; None: what the op's rule says."""
    dtype: DType | None = None
    """Element type of its results; None: what the graph states."""

    def applied(self, op: Op) -> Op:
        """The op with the attributes that say so."""
        attrs = dict(op.attrs)
        if self.compute is not None:
            attrs[COMPUTE] = self.compute
        if self.dtype is not None and opdef(op.op).takes_dtype:
            attrs[RESULT_DTYPE] = self.dtype.value
        return op if attrs == op.attrs else Op(op.id, op.op, op.inputs, op.outputs, attrs, op.name, op.origin)
