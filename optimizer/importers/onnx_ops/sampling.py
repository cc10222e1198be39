"""GridSample: TTNN's grid_sample, which is bilinear, with zeros outside of the image, on whole tiles of channels."""

from __future__ import annotations

from optimizer.importers.onnx_lowering import Lowering, NodeMapping, NotMappedError
from optimizer.layouts.tiling import TILE, round_up


def grid_sample(ctx: Lowering) -> str:
    mode, outside = ctx.attr("mode", "linear"), ctx.attr("padding_mode", "zeros")
    if len(ctx.shape(0)) != 4:
        raise NotMappedError("TTNN samples images only, no volumes")
    if mode not in ("linear", "bilinear"):
        raise NotMappedError(f"TTNN samples bilinearly only, not by mode '{mode}'")
    if outside != "zeros":
        raise NotMappedError(f"TTNN takes zeros outside of the image, not padding_mode '{outside}'")
    n, channels = ctx.shape(0)[:2]
    whole = round_up(channels, TILE)
    x = ctx.x(0)
    if whole != channels:
        x = ctx.emit("pad", x, padding=((0, 0), (0, whole - channels), (0, 0), (0, 0)), value=0.0)
    attrs = {"align_corners": bool(ctx.attr("align_corners", 0))}
    shape = (n, whole, *ctx.shape(1)[1:3])
    found = ctx.emit_raw("nchw.grid_sample", [x, ctx.x(1)], attrs, [(shape, ctx.vdtype(x))])[0]
    return found if whole == channels else ctx.slice(found, 1, 0, channels)


OPS: dict[str, NodeMapping] = {"GridSample": grid_sample}
