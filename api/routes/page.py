"""The web page at `/`, and the files it is made of."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from api.problems import NotFoundError
from api.web.files import PAGE, security_policy, web_files

router = APIRouter(include_in_schema=False)

KEPT_SECONDS = 300
"""For how long a browser need not ask for a file again."""


@router.get("/")
async def index(request: Request) -> Response:
    return _file(PAGE, {"content-security-policy": security_policy(), "cache-control": "no-cache"})


@router.get("/web/{name}")
async def file(name: str) -> Response:
    return _file(name, {"cache-control": f"max-age={KEPT_SECONDS}"})


def _file(name: str, headers: dict[str, str]) -> Response:
    found = web_files().get(name)
    if found is None:
        raise NotFoundError(f"there is no file '{name}'", node="name")
    return Response(found.content, media_type=found.media_type, headers=headers)
