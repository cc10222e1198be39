"""What there is to choose from: boards, policies, OpModels, artifacts, options."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter
from pydantic import BaseModel

from api.openapi import CALL_PROBLEMS, OPTIONS_SCHEMA
from api.routes.callers import TheCaller
from optimizer.device import DeviceSpec, preset_names
from optimizer.export.registry import emitter_descriptions
from optimizer.process.registered import OPMODELS, POLICIES

router = APIRouter(tags=["catalogue"], responses=CALL_PROBLEMS)


class Named(BaseModel):
    """A name, and a line about it."""

    name: str
    description: str


def named(entries: dict[str, str]) -> list[Named]:
    return [Named(name=name, description=text) for name, text in entries.items()]


@router.get("/v1/boards", summary="Boards, with everything that the optimizer knows of each")
async def boards(caller: TheCaller) -> list[dict[str, Any]]:
    return [DeviceSpec.preset(name).to_json() for name in preset_names()]


@router.get("/v1/policies", summary="Memory layout policies")
async def policies(caller: TheCaller) -> list[Named]:
    return named(POLICIES.descriptions())


@router.get("/v1/opmodels", summary="OpModel backends")
async def opmodels(caller: TheCaller) -> list[Named]:
    return named(OPMODELS.descriptions())


@router.get("/v1/emitters", summary="Artifacts that can be made of a result")
async def emitters(caller: TheCaller) -> list[Named]:
    return named(emitter_descriptions())


@router.get("/v1/options", summary="Options, as a JSON Schema")
async def options(caller: TheCaller) -> dict[str, Any]:
    return OPTIONS_SCHEMA
