"""The OpenAPI document of the collector; docs/openapi.json is its written form."""

from __future__ import annotations

from typing import Annotated, Any, cast

from fastapi import APIRouter, Depends, FastAPI
from fastapi.routing import APIRoute
from starlette.responses import Response

from collector.domain.access import Scope
from collector.routes import admin, aggregates
from collector.routes.dependencies import needs
from collector.routes.reports import OHTTP_PATH, REPORTS_PATH
from collector.routes.shapes import Batch, BatchResults
from rappor_core.wire.report import BINARY_CONTENT_TYPE
from rappor_server import openapi

_BYTES = {"schema": {"type": "string", "format": "binary"}}
_SEALED = {"requestBody": {"required": True, "content": {"message/ohttp-req": _BYTES}}}
_PACKED = {"requestBody": {"content": {BINARY_CONTENT_TYPE: _BYTES}}}
Sender = Annotated[str, Depends(needs(Scope.REPORT))]
_bare = APIRouter()  # declares the routes that the app answers before FastAPI


@_bare.post(
    REPORTS_PATH, operation_id="postReports", response_model=BatchResults, openapi_extra=_PACKED
)
def post_reports(_who: Sender, _batch: Batch) -> None:
    """Count the reports of a batch; answered when they are on the disk."""


@_bare.post(
    OHTTP_PATH,
    operation_id="postOblivious",
    response_class=Response,
    responses={200: {"content": {"message/ohttp-res": _BYTES}, "description": "A sealed answer"}},
    openapi_extra=_SEALED,
)
def post_oblivious() -> None:
    """Count the reports of a batch that a relay passed on (RFC 9458); sealed inside."""


def document(app: FastAPI) -> dict[str, Any]:
    """The OpenAPI document, with the scope of the key that each operation needs."""
    routers = (_bare, admin.router, aggregates.router)
    routes = [cast(APIRoute, one) for router in routers for one in router.routes]
    scopes = {
        route.operation_id: str(one.call.__doc__)
        for route in routes
        for one in route.dependant.dependencies
    }
    without_key = [str(route.operation_id) for route in routes if route.operation_id not in scopes]
    made = openapi.document(app, without_key, routes)
    for methods in made["paths"].values():
        for operation in methods.values():
            if scope := scopes.get(operation["operationId"]):
                operation["description"] += f"\n\n{scope}"
    return made
