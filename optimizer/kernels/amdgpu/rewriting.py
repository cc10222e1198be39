"""placeholder"""

from typing import Any


def rewritten(*a: Any) -> Any:
    return None
