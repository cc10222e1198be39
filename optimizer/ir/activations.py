"""Activations that kernels of other ops apply."""

from __future__ import annotations

FUSED_ACTIVATIONS = ("relu", "relu6", "gelu", "gelu_tanh", "silu", "sigmoid", "tanh")
"""Activations that matmul, conv and binary kernels apply in place; none has parameters of the model's.

No hardswish: matmuls refuse it (tt-metal 0.81, mock device), and what binary and conv kernels give for it is not
hardswish (ttnn 0.81.1's kernels on Tenstorrent's simulator, Wormhole: off by 8 at -8; `docs/activations.md`).
"""
OPERAND_ACTIVATIONS = ("input_tensor_a_activations", "input_tensor_b_activations")
"""Attributes of binary ops: activations applied to an operand before the op."""
