"""Properties of the ops of tt-mlir's TTNN dialect as of August 2026: those an op needs, and those it may have.

Unary and binary ops, copies and the like have none. tt-mlir drops in silence what it does not know, so that a misspelt
name would change nothing but the program.
"""

from __future__ import annotations

from collections.abc import Iterator

from tests.export.mlir.syntax import Operation

_WINDOW = "batch_size input_height input_width kernel_size stride padding dilation"
_POOL = f"{_WINDOW} channels ceil_mode"
_CONV = f"{_WINDOW} in_channels out_channels groups"
_PREPARED = f"{_CONV} input_memory_config input_tensor_layout input_dtype"
_CONV_CONFIGS = "conv2d_config compute_config conv2d_slice_config"
_POOL_CONFIGS = "applied_shard_scheme reallocate_halo_output config_tensors_in_dram"
_PRODUCT = "transpose_a transpose_b matmul_program_config activation compute_config"
_SEGMENTS = "operandSegmentSizes"
PROPERTIES: dict[str, tuple[str, str]] = {
    "func.call": ("callee", ""),
    "ttcore.load_cached": ("callee", ""),
    "ttnn.arange": ("start end step", ""),
    "ttnn.argmax": ("", "dim keep_dim"),
    "ttnn.avg_pool2d": (_POOL, f"{_POOL_CONFIGS} count_include_pad"),
    "ttnn.batch_norm_inference": ("", f"epsilon compute_config {_SEGMENTS}"),
    "ttnn.clamp_scalar": ("min max", ""),
    "ttnn.concat": ("dim", ""),
    "ttnn.conv2d": (_CONV, _CONV_CONFIGS),
    "ttnn.conv_transpose2d": (f"{_CONV} output_padding", _CONV_CONFIGS),
    "ttnn.cumsum": ("dim", ""),
    "ttnn.deallocate": ("", "force"),
    "ttnn.full": ("shape fill_value", ""),
    "ttnn.gather": ("dim", ""),
    "ttnn.get_device": ("", "mesh_shape mesh_offset"),
    "ttnn.group_norm": (f"num_groups {_SEGMENTS}", "epsilon"),
    "ttnn.layer_norm": (_SEGMENTS, "epsilon"),
    "ttnn.leaky_relu": ("parameter", ""),
    "ttnn.linear": ("", _PRODUCT),
    "ttnn.matmul": ("", _PRODUCT),
    "ttnn.max": ("keep_dim", "dim_arg compute_config"),
    "ttnn.max_pool2d": (_POOL, _POOL_CONFIGS),
    "ttnn.mean": ("keep_dim", "dim_arg compute_config"),
    "ttnn.min": ("keep_dim", "dim_arg compute_config"),
    "ttnn.pad": ("padding value use_multicore", ""),
    "ttnn.permute": ("permutation", "pad_value"),
    "ttnn.pow_scalar": ("rhs", ""),
    "ttnn.prepare_conv2d_bias": (_PREPARED, f"output_dtype {_CONV_CONFIGS}"),
    "ttnn.prepare_conv2d_weights": (f"{_PREPARED} weights_format has_bias", f"output_dtype {_CONV_CONFIGS}"),
    "ttnn.prepare_conv_transpose2d_bias": (_PREPARED, f"output_dtype {_CONV_CONFIGS}"),
    "ttnn.prepare_conv_transpose2d_weights": (
        f"{_PREPARED} weights_format has_bias output_padding",
        f"output_dtype {_CONV_CONFIGS}",
    ),
    "ttnn.prod": ("keep_dim", "dim_arg"),
    "ttnn.repeat": ("repeat_dims", ""),
    "ttnn.repeat_interleave": ("repeats dim", ""),
    "ttnn.reshape": ("shape", ""),
    "ttnn.rms_norm": (_SEGMENTS, "epsilon compute_config"),
    "ttnn.rotary_embedding": ("", "token_index compute_config"),
    "ttnn.scaled_dot_product_attention": (_SEGMENTS, "is_causal scale sliding_window_size"),
    "ttnn.scatter": ("dim scatter_reduce_type", ""),
    "ttnn.slice_static": ("begins ends step", ""),
    "ttnn.softmax": ("dimension", "numericStable compute_config"),
    "ttnn.sort": ("", "dim descending stable"),
    "ttnn.split_query_key_value_and_split_heads": ("num_heads transpose_key", "num_kv_heads"),
    "ttnn.sum": ("keep_dim", "dim_arg compute_config"),
    "ttnn.topk": ("k", "dim largest sorted"),
    "ttnn.transpose": ("dim0 dim1", ""),
    "ttnn.upsample": ("scale_factor", "mode"),
}
"""Op -> names needed, names allowed besides."""


def of_properties(op: Operation) -> Iterator[str]:
    """What an op's properties lack, or have too many."""
    needed, allowed = (set(names.split()) for names in PROPERTIES.get(op.name, ("", "")))
    if needed - op.properties.keys():
        yield f"lacks {sorted(needed - op.properties.keys())}"
    if op.properties.keys() - needed - allowed:
        yield f"has no {sorted(op.properties.keys() - needed - allowed)}"
    segments = op.properties.get(_SEGMENTS)
    if segments is not None and sum(segments.values) != len(op.operands):
        yield f"has {len(op.operands)} operands in segments of {segments.values}"
