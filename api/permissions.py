"""Which options a stranger may give over HTTP.

Every field of `Options` stands in one of the tables below. An option in none of them is refused, so that a new one is
off until somebody has judged it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

from api.settings import PREFIX
from optimizer.errors import OptionError, TtoptError, UnknownNameError
from optimizer.opmodel.registry import names as opmodel_names
from optimizer.options import Options

COMPUTED_WITH = frozenset(
    {
        "policy",
        "optimization_level",
        "chain_objective",
        "chain_solver",
        "l1_interleaved_fallback",
        "weights_in_l1",
        "in_place_ops",
        "rewrites",
        "allow_host_ops",
        "max_legal_layouts",
        "row_major_enabled",
        "tensor_l1_usage_cap",
        "l1_small_bytes",
        "input_shapes",
        "dims",
        "channels_last_inputs",
        "activations_dtype",
        "weights_dtype",
        "least_pcc",
        "pareto",
        "math_fidelity",
        "override_output_layout",
        "override_conv2d_config",
        "insert_memreconfig",
        "fuse_kernels",
        "time_limit",
        "seed",
        "max_nodes",
        "max_model_bytes",
    }
)
"""Names, numbers and text that only steer the computation; their cost is limited by the worker's time and memory."""

NAMES_A_FILE = frozenset({"board"})
"""May name a file of this machine: only presets are taken."""

RUNS_PROGRAMS: dict[str, Any] = {"opmodel": "analytical", "check": None}
"""May execute programs on this machine: the value that does not, and the only one without the setting below."""

SETTING = PREFIX + "ALLOW_TTMETAL"
BOARD_SUFFIX = ".json"


class NotPermittedError(TtoptError):
    """The operator does not let clients choose this."""

    code = "not-permitted"
    exit_code = 2
    http_status = 403


@dataclass(frozen=True)
class Permissions:
    """What clients may choose."""

    programs: bool = False
    """Backends that execute programs on this machine, such as the emitted program of a client's model."""

    def check(self, options: Options) -> None:
        """OptionError or NotPermittedError for what a client may not choose."""
        default = Options()
        for field in fields(Options):
            name, value = field.name, getattr(options, field.name)
            if name in COMPUTED_WITH:
                continue
            if name in NAMES_A_FILE:
                if str(value).endswith(BOARD_SUFFIX):
                    raise OptionError(f"over HTTP a {name} is given by name", node=name)
            elif name in RUNS_PROGRAMS:
                if value != RUNS_PROGRAMS[name] and not self.programs:
                    self._refuse(name, value)
            elif value != getattr(default, name):
                raise NotPermittedError(f"'{name}' cannot be chosen over HTTP", node=name)

    @staticmethod
    def _refuse(name: str, value: object) -> None:
        if name == "opmodel" and value not in opmodel_names():
            raise UnknownNameError("OpModel backend", str(value), opmodel_names(), node="opmodel")
        raise NotPermittedError(
            f"'{name}={value}' runs programs on the server and is off; its operator allows it with {SETTING}=1",
            node=name,
            alternatives=(str(RUNS_PROGRAMS[name]).lower(),),
        )
