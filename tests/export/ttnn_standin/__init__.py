"""A stand-in for the package `ttnn` that computes emitted programs with numpy, strictly.

`Standin().load(text)` executes the text of a `model_ttnn.py` with the stand-in in place of `ttnn`. Every tensor keeps
shape, element type, page layout and memory config; arguments are bound to the signatures of the real wheel
(`signatures.json`); what TTNN refuses, and what would read a freed buffer, is an error. Nothing here imports
`optimizer`: it witnesses what the optimizer wrote.
"""

from ttnn_standin.errors import Refused, Unmodelled, UseAfterFree
from ttnn_standin.module import Program, Standin
from ttnn_standin.tensor import Array, Tensor

__all__ = ["Array", "Program", "Refused", "Standin", "Tensor", "Unmodelled", "UseAfterFree"]
