"""What expressions may be refused for."""

from __future__ import annotations

from optimizer.errors import InputError


class ExpressionError(InputError):
    """No instructions compute it: no bounds, more than 32 bits, division by a symbol."""

    code = "bad-expression"
