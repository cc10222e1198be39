"""What tt-metal accepts of reductions, softmax and norms, and what they take."""

from __future__ import annotations

from optimizer.families.reductions import group_norm, largest, norm, reduction, softmax
from optimizer.families.reductions.rows import REDUCTIONS
from optimizer.opmodel.analytical.case import Family

FAMILIES: dict[str, Family] = {
    **{f"ttnn.{name}": reduction.reduce for name in REDUCTIONS if name != "prod"},
    "ttnn.argmax": largest.argmax,
    "ttnn.topk": largest.topk,
    "ttnn.cumsum": reduction.cumsum,
    "ttnn.softmax": softmax.softmax,
    "ttnn.attention_softmax": softmax.attention_softmax,
    "ttnn.layer_norm": norm.layer_norm,
    "ttnn.rms_norm": norm.layer_norm,
    "ttnn.group_norm": group_norm.group_norm,
    "ttnn.batch_norm": norm.batch_norm,
}
