"""Programs of results executed with values: weights and inputs in, outputs out and compared (`ttopt run`)."""

from optimizer.execution.reference import Reference
from optimizer.execution.running import RunOptions, run_result
from optimizer.execution.weights import read_weights

__all__ = ["Reference", "RunOptions", "read_weights", "run_result"]
