"""Matrix products in the TTNN dialect."""

from __future__ import annotations

from optimizer.export.mlir.configs import activation_text
from optimizer.export.mlir.spelling import Rule, Said, Site
from optimizer.export.mlir.text import boolean, quoted


def _matmul(site: Site) -> tuple[Said, ...]:
    properties = {
        "transpose_a": boolean(site.attrs["transpose_a"]),
        "transpose_b": boolean(site.attrs["transpose_b"]),
        **site.program("matmul_program_config"),
        **site.compute(),
    }
    activation = site.attrs["activation"]
    fused = getattr(site.config, "fused_activation", None)
    if fused is not None and activation_text(fused) is None:
        activation = fused
    if activation:
        properties["activation"] = quoted(activation)
    return (Said(site.op.op, site.operands, properties),)


MLIR: dict[str, Rule] = dict.fromkeys(("ttnn.matmul", "ttnn.linear"), _matmul)
