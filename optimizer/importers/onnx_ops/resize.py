"""Resize and Upsample by whole factors of the two last dims."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.ir.graph import Attr


def resize(ctx: Lowering) -> str:
    mode = str(ctx.attr("mode", "nearest"))
    source, target = ctx.shape(0), ctx.out_shape()
    if ctx.attr("axes") is not None and len(target) != len(source):
        raise NotMappedError("Resize of some axes")
    if source == target:
        return ctx.x(0)
    if len(source) == 3:
        source, target = (*source[:2], 1, source[2]), (*target[:2], 1, target[2])
    if len(source) != 4 or source[:2] != target[:2]:
        raise NotMappedError("Resize of other dims than height and width")
    x = ctx.reshape(ctx.x(0), source)
    up = [t // s if t % s == 0 else 0 for s, t in zip(source[2:], target[2:], strict=True)]
    down = [s // t if s % t == 0 else 0 for s, t in zip(source[2:], target[2:], strict=True)]
    if ctx.opset >= 11 or ctx.node.op_type == "Resize":
        coordinates = str(ctx.attr("coordinate_transformation_mode", "half_pixel" if ctx.opset >= 11 else "asymmetric"))
        rounding = str(ctx.attr("nearest_mode", "round_prefer_floor" if ctx.opset >= 11 else "floor"))
    else:
        coordinates, rounding = "asymmetric", "floor"
    if mode == "nearest" and all(up) and _copies_blocks(coordinates, rounding):
        return _upsample(ctx, x, (up[0], up[1]), "nearest")
    if mode == "nearest" and all(down) and coordinates == "asymmetric" and rounding in ("floor", "round_prefer_floor"):
        return ctx.slice(ctx.slice(x, 2, 0, source[2], down[0]), 3, 0, source[3], down[1])
    bilinear = mode in ("linear", "bilinear") and coordinates in ("half_pixel", "pytorch_half_pixel")
    if bilinear and all(up):
        return _upsample(ctx, x, (up[0], up[1]), "bilinear")
    raise NotMappedError(f"{mode} resize ({coordinates}, {rounding}) from {list(source)} to {list(target)}")


def _copies_blocks(coordinates: str, rounding: str) -> bool:
    """Whether enlarging by a whole factor repeats each element (floor of the asymmetric position)."""
    if coordinates == "asymmetric":
        return rounding == "floor"
    return coordinates in ("half_pixel", "pytorch_half_pixel", "half_pixel_symmetric") and rounding.startswith("round")


def _upsample(ctx: Lowering, x: str, scale: tuple[int, int], mode: str) -> str:
    n, c, height, width = ctx.vshape(x)
    shape = (n, c, height * scale[0], width * scale[1])
    attrs: dict[str, Attr] = {"scale_factor": scale, "mode": mode}
    return ctx.emit_raw("nchw.upsample", [x], attrs, [(shape, ctx.vdtype(x))])[0]


def depth_to_space(ctx: Lowering) -> str:
    n, c, h, w = ctx.shape(0)
    b = int(ctx.attr("blocksize"))
    if ctx.attr("mode", "DCR") == "DCR":
        split = ctx.reshape(ctx.x(0), (n, b, b, c // (b * b), h, w))
        mixed = ctx.permute(split, (0, 3, 4, 1, 5, 2))
    else:
        split = ctx.reshape(ctx.x(0), (n, c // (b * b), b, b, h, w))
        mixed = ctx.permute(split, (0, 1, 4, 2, 5, 3))
    return ctx.reshape(mixed, (n, c // (b * b), h * b, w * b))


def space_to_depth(ctx: Lowering) -> str:
    n, c, h, w = ctx.shape(0)
    b = int(ctx.attr("blocksize"))
    split = ctx.reshape(ctx.x(0), (n, c, h // b, b, w // b, b))
    return ctx.reshape(ctx.permute(split, (0, 3, 5, 1, 2, 4)), (n, c * b * b, h // b, w // b))


OPS: dict[str, NodeMapping] = {
    "Resize": resize,
    "Upsample": resize,
    "DepthToSpace": depth_to_space,
    "SpaceToDepth": space_to_depth,
}
