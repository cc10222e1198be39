"""SymPy expressions as instructions. Start at `emitter.ExpressionEmitter`; importing this package loads SymPy."""

from gfx942.expr.emitter import Address, ExpressionEmitter, floor_div, mod

__all__ = ["Address", "ExpressionEmitter", "floor_div", "mod"]
