"""Foreign models to `Graph`: `load(path_or_bytes)`; nothing heavy is imported before it is called."""

from optimizer.importers.loading import Format, load, suffixes
from optimizer.importers.model import KEEP, ImportedModel, ImportLimits, ImportOptions, ImportReport

__all__ = [
    "KEEP", "Format", "ImportLimits", "ImportOptions", "ImportReport", "ImportedModel", "load", "suffixes",
]  # fmt: skip
