"""ONNX ops that TTNN has no counterpart for, each with the reason and what a user can do."""

from __future__ import annotations

import onnx.defs

from optimizer.errors import near

_RECURRENT = "TTNN has no recurrent net; export it unrolled over the time steps, or run it on the host"
_RANDOM = "random numbers are drawn on the host; feed them as an input instead"
_COUNT = "the shape of the result depends on the data; run it on the host, after the last op that is on the device"
_TEXT = "strings exist on the host only; tokenize before the model"
_SEQUENCE = "tensors have static shapes; use Split, Concat and Slice instead of sequences"
_TRAINING = "a loss is for training; export the model for inference"
_SIGNAL = "TTNN has no such transform for models; compute the features on the host and feed them"
_BOXES = "TTNN has no op on regions; cut the model before it and post-process on the host"
_OPTIONAL = "what is present must be known at export; export one variant"
_FLOW = "what runs depends on run-time values; export the model with the control flow unrolled or removed"

REASONS: dict[str, str] = {
    **dict.fromkeys(("LSTM", "GRU", "RNN"), _RECURRENT),
    **dict.fromkeys(("Loop", "Scan", "If", "SequenceMap"), _FLOW),
    **dict.fromkeys(
        ("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"), _RANDOM
    ),
    **dict.fromkeys(("NonZero", "Unique"), _COUNT),
    **dict.fromkeys(("NonMaxSuppression", "MaxRoiPool", "RoiAlign"), _BOXES),
    **dict.fromkeys(
        ("StringConcat", "StringNormalizer", "StringSplit", "RegexFullMatch", "TfIdfVectorizer", "ImageDecoder"), _TEXT
    ),
    **dict.fromkeys(
        ("SequenceAt", "SequenceConstruct", "SequenceEmpty", "SequenceErase", "SequenceInsert", "SequenceLength",
         "SplitToSequence", "ConcatFromSequence"), _SEQUENCE,
    ),
    **dict.fromkeys(("Optional", "OptionalGetElement", "OptionalHasElement"), _OPTIONAL),
    **dict.fromkeys(("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"), _TRAINING),
    **dict.fromkeys(
        ("DFT", "STFT", "MelWeightMatrix", "BlackmanWindow", "HammingWindow", "HannWindow"), _SIGNAL
    ),
    "AffineGrid": "TTNN makes no grids; compute the grid on the host and feed it to GridSample",
    "DeformConv": "TTNN moves no taps of a kernel by computed offsets; run it on the host",
    "MaxUnpool": "TTNN's pools give no indices to undo; use ConvTranspose or Resize",
    "Col2Im": "TTNN puts no overlapping blocks together; use ConvTranspose",
    "Det": "TTNN has no determinants; compute it on the host",
}  # fmt: skip
"""Op type -> why it does not run on the device and what to do; ops on constants only are folded before."""


def reason(key: str) -> str:
    """Why an op without a mapping becomes opaque; `key` is `[domain.]OpType`."""
    known = REASONS.get(key)
    if known is not None:
        return known
    domain, _, op_type = key.rpartition(".")
    if not domain and not onnx.defs.has(op_type):
        return no_such_op(op_type)
    whose = f"the domain '{domain}'" if domain else "ONNX"
    return f"TTNN has no counterpart of this op of {whose}; export it as standard ops, or run it on the host"


def no_such_op(op_type: str) -> str:
    """What to say of an op type that ONNX itself does not have."""
    known = {schema.name for schema in onnx.defs.get_all_schemas() if schema.domain == ""}
    return f"ONNX has no op '{op_type}'{near(op_type, known)}"
