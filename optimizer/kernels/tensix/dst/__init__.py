"""DST allocation for one fused body of tile ops: order, forms, copies, slots, sections, and where it is split.

TileDag -> schedule (order and forms) -> stages (split at circular buffers) -> slots -> sections
"""
