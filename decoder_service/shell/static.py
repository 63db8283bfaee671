"""Routes of style sheets and scripts, which change with the version alone."""

from __future__ import annotations

from hashlib import sha256
from importlib.resources import files

from fastapi import Request
from starlette.exceptions import HTTPException
from starlette.responses import Response

from decoder.output.jinja import SCRIPTS, flow_stylesheet, map_stylesheet, script, stylesheet
from decoder_service.shell.guard import without_key
from decoder_service.shell.web import ASSETS
from decoder_service.shell.web import router as new_router

OWN_SCRIPTS = ("chart.js", "job.js")
router = new_router()


@router.get(ASSETS + "{name}")
@without_key
def asset(request: Request, name: str) -> Response:
    """A file of the pages."""
    text, kind = _text(name), "text/css" if name.endswith(".css") else "text/javascript"
    tag = f'"{sha256(text.encode()).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)


@router.get("/favicon.ico")
@without_key
def favicon() -> Response:
    """Answer that there is no icon."""
    return Response(status_code=204)


def _text(name: str) -> str:
    own = files("decoder_service.shell").joinpath("static")
    if name == "page.css":
        mine = own.joinpath("service.css").read_text(encoding="utf-8")
        return stylesheet() + map_stylesheet() + flow_stylesheet() + mine
    if name in SCRIPTS:
        return script(name)
    if name in OWN_SCRIPTS:
        return own.joinpath(name).read_text(encoding="utf-8")
    raise HTTPException(404, f"there is no file {name[:60]!a}")
