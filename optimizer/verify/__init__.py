"""Re-checks a finished result from scratch.

Nothing here trusts the policy, the solver or the transform: layouts are re-derived from shapes, every op is
put to the OpModel again with the layouts its operands really have, and L1 is replayed step by step with an
allocator of this room's own. The rules are a list (`optimizer.verify.rules`); `verify` returns every error that
they find, and the pipeline raises on any. What a document states besides is compared in `figures`, `plan_records`
and `same_model`, for `ttopt check`.
"""

from optimizer.verify.memory_rules import place_buffer
from optimizer.verify.rules import RULES, check_soundness, verified, verify
from optimizer.verify.subject import Error, Rule, StepMemory, Subject, VerifyReport

__all__ = [
    "RULES", "Error", "Rule", "StepMemory", "Subject", "VerifyReport", "check_soundness", "place_buffer", "verified",
    "verify",
]  # fmt: skip
