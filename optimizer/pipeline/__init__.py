"""From a model to a verified result. `stages.stages` is the whole data flow; `optimize` and `optimize_file` run it."""

from optimizer.pipeline.clock import Clock, Progress, ProgressEvent
from optimizer.pipeline.entrances import optimize, optimize_file, prepare
from optimizer.pipeline.importing import import_model, survey_model

__all__ = ["Clock", "Progress", "ProgressEvent", "import_model", "optimize", "optimize_file", "prepare", "survey_model"]
