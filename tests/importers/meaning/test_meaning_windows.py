"""Variants of convolutions, pools and resizes give what onnxruntime gives."""

from __future__ import annotations

import numpy as np
import pytest
from op_case import F32, I64, Case, check, const, scalar, weight

X = (2, 3, 8, 6)


def resize(*sizes: int, shape: tuple[int, ...] = X, opset: int = 19, label: str = "", **attrs: object) -> Case:
    name = label or "-".join(str(v) for v in (*sizes, *attrs.values()))
    return Case("Resize", (shape, None, None, const(*sizes)), dict(attrs), opset=opset, label=name)


CASES = [
    # -- convolutions -----------------------------------------------------------------------------
    Case("Conv", (X, weight(4, 3, 3, 3)), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, label="same-lower"),
    Case("Conv", (X, weight(4, 3, 3, 3)), {"auto_pad": "VALID"}, label="valid"),
    Case("Conv", ((2, 4, 9), weight(4, 1, 3)), {"group": 4, "dilations": [2]}, label="1d-depthwise"),
    Case("Conv", ((1, 2, 4, 6, 6), weight(3, 2, 1, 3, 3), weight(3)), {"pads": [0, 1, 1, 0, 1, 1]}, label="3d-flat"),
    Case("Conv", ((2, 2, 4, 6, 6), weight(3, 2, 3, 1, 1), weight(3)), {"pads": [1, 0, 0, 1, 0, 0]}, label="3d-depth"),
    Case("Conv", ((1, 2, 4, 6, 6), weight(3, 2, 2, 3, 3), weight(3)),
         {"strides": [2, 2, 2], "pads": [0, 1, 1, 0, 1, 1]},
         label="3d-patches"),
    Case("Conv", ((1, 2, 5, 6, 6), weight(3, 2, 3, 3, 3), weight(3)),
         {"strides": [1, 2, 1], "pads": [1, 1, 1, 1, 1, 1]},
         label="3d"),
    Case("Conv", ((1, 2, 5, 6, 6), weight(4, 1, 3, 3, 3)), {"group": 2, "dilations": [2, 1, 1]}, label="3d-groups"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3)), {"strides": [2, 2], "output_shape": [16, 12]}, label="output-shape"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3)), {"strides": [2, 2], "output_shape": [17, 14],
                                                   "output_padding": [1, 1]}, label="output-shape-padded"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3)), {"auto_pad": "SAME_LOWER", "strides": [2, 2]}, label="same-lower"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3)), {"auto_pad": "VALID"}, label="valid"),
    Case("ConvTranspose", (X, weight(3, 4, 3, 3), weight(4)), {"dilations": [2, 1], "pads": [1, 0, 1, 2]},
         label="dilated"),
    Case("ConvTranspose", ((1, 4, 5, 5), weight(4, 1, 3, 3), weight(4)), {"group": 4, "strides": [2, 2]},
         label="depthwise"),
    Case("ConvTranspose", ((2, 4, 9), weight(4, 3, 4)), {"strides": [2], "pads": [1, 1], "output_padding": [1]},
         label="1d"),
    Case("ConvTranspose", ((1, 2, 3, 5, 5), weight(2, 3, 1, 3, 3)), {"strides": [1, 2, 2]}, label="3d-flat"),
    # -- pools ------------------------------------------------------------------------------------
    Case("MaxPool", (X,), {"kernel_shape": [2, 2], "dilations": [2, 2]}, label="dilated"),
    Case("MaxPool", (X,), {"kernel_shape": [2, 2]}, outputs=(F32, I64), returned=(0,), label="indices-unused"),
    Case("MaxPool", (X,), {"kernel_shape": [3, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}, label="same"),
    Case("MaxPool", ((2, 3, 10),), {"kernel_shape": [3], "strides": [2], "pads": [1, 1], "ceil_mode": 1},
         label="1d-ceil"),
    Case("MaxPool", ((2, 3, 10),), {"kernel_shape": [3], "dilations": [2]}, label="1d-dilated"),
    Case("MaxPool", ((1, 2, 4, 6, 6),), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, label="3d"),
    Case("MaxPool", ((1, 2, 5, 6, 6),), {"kernel_shape": [3, 3, 3], "strides": [2, 2, 2], "pads": [1, 1, 1, 1, 1, 1]},
         label="3d-padded"),
    Case("MaxPool", (X,), {"kernel_shape": [2, 2], "strides": [2, 2], "storage_order": 1}, label="column-major"),
    Case("AveragePool", (X,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}, opset=19, label="ceil"),
    Case("AveragePool", (X,), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1, "pads": [1, 1, 1, 1],
                               "count_include_pad": 1}, opset=19, label="ceil-padding-counts"),
    Case("AveragePool", (X,), {"kernel_shape": [2, 2], "auto_pad": "SAME_UPPER"}, label="same"),
    Case("AveragePool", ((2, 3, 9),), {"kernel_shape": [3], "strides": [2], "pads": [1, 1]}, label="1d"),
    Case("AveragePool", (X,), {"kernel_shape": [2, 2], "dilations": [2, 2]}, opset=19, label="dilated"),
    Case("AveragePool", ((1, 2, 4, 6, 6),), {"kernel_shape": [2, 2, 2], "strides": [2, 2, 2]}, label="3d"),
    Case("GlobalAveragePool", ((2, 3, 7),), label="1d"),
    Case("GlobalMaxPool", ((2, 3, 7),), label="1d"),
    Case("GlobalAveragePool", ((2, 3, 2, 4, 5),), label="3d"),
    Case("GlobalLpPool", (X,), {"p": 2}),
    Case("GlobalLpPool", (X,), {"p": 1}, label="1"),
    Case("GlobalLpPool", (X,), {"p": 3}, label="3"),
    Case("LpPool", (X,), {"kernel_shape": [2, 2], "strides": [2, 2], "p": 2}),
    Case("LpPool", (X,), {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "p": 1}, label="1"),
    # -- resizes ----------------------------------------------------------------------------------
    *[resize(2, 3, 16, 18, mode="nearest", nearest_mode=rounding, coordinate_transformation_mode=coordinates)
      for rounding in ("floor", "round_prefer_floor", "round_prefer_ceil", "ceil")
      for coordinates in ("asymmetric", "half_pixel", "align_corners", "pytorch_half_pixel")],
    *[resize(2, 3, 16, 12, mode="linear", coordinate_transformation_mode=coordinates)
      for coordinates in ("asymmetric", "align_corners", "half_pixel", "pytorch_half_pixel", "half_pixel_symmetric")],
    resize(2, 3, 11, 7, mode="nearest"),
    resize(2, 3, 5, 4, mode="nearest"),
    resize(2, 3, 11, 7, mode="linear"),
    resize(2, 3, 5, 4, mode="linear"),
    resize(2, 3, 5, 4, mode="linear", antialias=1),
    resize(2, 3, 5, 9, mode="cubic", antialias=1),
    resize(2, 3, 16, 12, mode="cubic"),
    resize(2, 3, 16, 12, mode="cubic", cubic_coeff_a=-0.5, coordinate_transformation_mode="align_corners"),
    resize(2, 3, 16, 12, mode="cubic", exclude_outside=1),
    resize(1, 1, 11, 7, mode="linear", shape=(1, 1, 8, 6), label="one-channel"),
    resize(2, 3, 8, 12, mode="linear", label="width-only"),
    resize(2, 6, 8, 6, mode="nearest", coordinate_transformation_mode="asymmetric", nearest_mode="floor",
           label="channels"),
    resize(2, 3, 14, shape=(2, 3, 7), mode="nearest", coordinate_transformation_mode="asymmetric",
           nearest_mode="floor", label="1d"),
    resize(2, 3, 10, shape=(2, 3, 7), mode="linear", label="1d-linear"),
    resize(1, 2, 4, 8, 6, shape=(1, 2, 2, 4, 3), mode="nearest", coordinate_transformation_mode="asymmetric",
           nearest_mode="floor", label="3d"),
    resize(1, 2, 4, 8, 6, shape=(1, 2, 2, 4, 3), mode="linear", label="3d-linear"),
    resize(9, 5, shape=(7, 4), mode="linear", label="rank-2"),
    resize(1, 1, 500, 3, shape=(1, 1, 300, 2), mode="linear", label="long-linear"),
    resize(1, 1, 500, 3, shape=(1, 1, 300, 2), mode="nearest", label="long-nearest"),
    Case("Resize", (X, None, scalar([1, 1, 1.5, 2.5], np.float32)), {"mode": "linear"}, opset=19, label="scales"),
    Case("Resize", (X, None, scalar([1, 1, 0.6, 0.6], np.float32)), {"mode": "nearest"}, opset=19, label="scales-down"),
    Case("Resize", (X, None, scalar([1, 1, 0.6, 0.6], np.float32)), {"mode": "linear"}, opset=13,
         label="scales-linear"),
    Case("Resize", (X, scalar([1, 1, 2.0, 2.0], np.float32)), {"mode": "nearest"}, opset=10, label="opset-10"),
    Case("Resize", (X, scalar([1, 1, 2.0, 2.0], np.float32)), {"mode": "linear"}, opset=10, label="opset-10-linear"),
    Case("Resize", (X, None, None, const(16, 12)), {"mode": "linear", "axes": [2, 3]}, opset=19, label="axes"),
    Case("Resize", (X, None, None, const(20, 20)),
         {"mode": "linear", "axes": [2, 3], "keep_aspect_ratio_policy": "not_larger"}, opset=19, label="not-larger"),
    Case("Resize", (X, scalar([0, 0, 0.1, 0.2, 1, 1, 0.8, 0.9], np.float32), None, const(2, 3, 5, 5)),
         {"mode": "linear", "coordinate_transformation_mode": "tf_crop_and_resize"}, opset=19, label="crop"),
    Case("Upsample", (X, scalar([1, 1, 2, 2], np.float32)), {"mode": "linear"}, opset=9, label="linear"),
    Case("Upsample", (X,), {"scales": [1.0, 1.0, 2.0, 2.0]}, opset=7, label="attribute"),
    Case("GridSample", ((2, 32, 8, 6), (2, 5, 4, 2)), {"mode": "linear"}, opset=20, label="tiles"),
    Case("GridSample", (X, (2, 5, 4, 2)), opset=16, label="few-channels"),
    Case("GridSample", ((2, 64, 8, 6), (2, 5, 4, 2)), {"align_corners": 1}, opset=16, label="corners"),
    Case("GridSample", ((1, 32, 1, 1), (1, 2, 2, 2)), opset=16, label="one-pixel"),
    Case("DepthToSpace", ((2, 8, 2, 3),), {"blocksize": 2, "mode": "DCR"}, label="batch"),
    Case("SpaceToDepth", ((2, 2, 4, 6),), {"blocksize": 2}, label="batch"),
]  # fmt: skip


@pytest.mark.parametrize("case", CASES, ids=str)
def test_op_keeps_its_meaning(case: Case) -> None:
    check(case)
