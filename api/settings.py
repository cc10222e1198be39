"""Settings of the service, from the environment."""

from __future__ import annotations

import os
from collections.abc import Mapping

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from optimizer.errors import OptionError

PREFIX = "TTOPT_"


class Settings(BaseModel):
    """Each field is the environment variable `TTOPT_<FIELD>`."""

    model_config = ConfigDict(frozen=True)

    workers: int = Field(default=os.cpu_count() or 1, ge=1, description="solver processes")
    queue_limit: int = Field(default=16, ge=0, description="requests that may wait for a worker")
    max_body_bytes: int = Field(default=512 * 1024**2, ge=1, description="largest request body")
    max_nodes: int = Field(default=20_000, ge=1, description="largest graph, in nodes")
    request_seconds: float = Field(default=300.0, gt=0, description="longest a request may take once it runs")

    @staticmethod
    def from_environment(environment: Mapping[str, str] = os.environ) -> Settings:
        """OptionError names the variable that is wrong."""
        given = {name: environment[PREFIX + name.upper()] for name in _names() if PREFIX + name.upper() in environment}
        try:
            return Settings.model_validate(given)
        except ValidationError as error:
            fault = error.errors()[0]
            variable = PREFIX + str(fault["loc"][0]).upper()
            raise OptionError(f"{fault['msg']}, got '{fault['input']}'", node=variable) from error


def _names() -> list[str]:
    return list(Settings.model_fields)
