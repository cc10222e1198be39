"""What the back end says when it is asked to: one JSON object per line on stderr, a channel per environment variable.

    TTOPT_ASM_KERNEL_ALLOC_DEBUG=1       alloc       registers taken and given back
    TTOPT_ASM_KERNEL_EMITTER_DEBUG=1     emitter     instructions that expressions become
    TTOPT_ASM_KERNEL_CSE_DEBUG=1         cse         expressions found again, or not
    TTOPT_ASM_DEBUG_LIVENESS=1           liveness    blocks, loops, ranges that they extend
    TTOPT_ASM_DEBUG_REGALLOC=1           regalloc    what the allocator decided per register class
    TTOPT_ASM_LDS_DSREAD_OFFSET_DEBUG=1  ds-offset   parts of LDS addresses that become offset fields
    TTOPT_ASM_DEBUG_PASSES=1             passes      what each pass changed

The records also go to the logger `optimizer.kernels.amdgpu` at level DEBUG, their fields in `record.fields`.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

VARIABLES: Mapping[str, str] = MappingProxyType({
    "alloc": "TTOPT_ASM_KERNEL_ALLOC_DEBUG",
    "emitter": "TTOPT_ASM_KERNEL_EMITTER_DEBUG",
    "cse": "TTOPT_ASM_KERNEL_CSE_DEBUG",
    "liveness": "TTOPT_ASM_DEBUG_LIVENESS",
    "regalloc": "TTOPT_ASM_DEBUG_REGALLOC",
    "ds-offset": "TTOPT_ASM_LDS_DSREAD_OFFSET_DEBUG",
    "passes": "TTOPT_ASM_DEBUG_PASSES",
})  # fmt: skip

_LOG = logging.getLogger("optimizer.kernels.amdgpu")


def enabled(channel: str) -> bool:
    """Whether anybody listens: ask before computing what would be said."""
    return _wanted(channel) or _LOG.isEnabledFor(logging.DEBUG)


def say(channel: str, message: str, **fields: Any) -> None:
    """One record: `message` is for people, `fields` for programs."""
    if _wanted(channel):
        print(json.dumps({"channel": channel, "message": message, **fields}), file=sys.stderr, flush=True)  # noqa: T201
    _LOG.debug("[%s] %s", channel.upper(), message, extra={"fields": {"channel": channel, **fields}})


def _wanted(channel: str) -> bool:
    return os.environ.get(VARIABLES[channel], "") not in ("", "0")
