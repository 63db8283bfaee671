"""The shared parts of pages: templates, the content policy, forms and error pages."""

import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from typing import Annotated, Any, TypeVar, get_type_hints
from urllib.parse import quote, urlencode

from fastapi import APIRouter, Depends, Query, Request
from fastapi.exceptions import RequestValidationError
from jinja2 import Environment
from pydantic import BaseModel, ValidationError, create_model
from starlette.concurrency import run_in_threadpool
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException
from starlette.responses import HTMLResponse, RedirectResponse, Response

from decoder.options import DEFAULT_ALPHA, DEFAULT_LEVEL
from decoder.output.jinja import SCRIPTS, map_stylesheet, page_environment, script, stylesheet
from decoder_service.people.access import Resources
from decoder_service.people.permissions import Act, Person
from decoder_service.shell.database import text_of
from decoder_service.shell.errors import ServiceError, is_unreachable
from decoder_service.shell.requests import (
    DISK_FULL,
    Flag,
    GuardedRoute,
    Handler,
    Me,
    Service,
    current_person,
    status_of,
    without_key,
)
from decoder_service.shell.service import DecoderService
from rappor_core.errors import RapporError
from rappor_core.text import visible
from rappor_server.errors import AuthenticationError, DiskFullError, NotFoundError, RequestError
from rappor_server.problems import first_problem

PAGE = 50  # Rows of a list on a page
ASSETS = "/static/"
POLICY = "Content-Security-Policy"
HEADERS = {
    POLICY: "default-src 'self'; base-uri 'none'; object-src 'none'; "
    "form-action 'self'; frame-ancestors 'none'",
    "Referrer-Policy": "same-origin",  # Under no-referrer, browsers omit the Origin of forms
}
_MENDABLE = frozenset({404, 409, 422, 429, 503})  # Error statuses after which a form is shown again
_FOR_PROGRAMS = "; GET /v1/"  # Pages omit the part of an error that begins with this
_RETRY = "The service cannot reach its database. Try again in a moment."

Known = TypeVar("Known", bound=BaseModel)
OWN_SCRIPTS = ("cards.js", "chart.js", "job.js")


@dataclass(frozen=True, slots=True)
class Posted:
    """A submitted form: its text fields by name, and the bytes of the chosen files."""

    texts: dict[str, list[str]]
    files: dict[str, tuple[str, bytes]]

    def text(self, name: str, default: str = "") -> str:
        """Return the first text of a field, stripped."""
        return (self.texts.get(name) or [default])[0].strip()

    def all(self, name: str) -> list[str]:
        """Return all non-empty texts of a field."""
        return [text.strip() for text in self.texts.get(name, []) if text.strip()]


async def posted(request: Request) -> Posted:
    """Read the form of a request, or raise RequestError if its encoding is unknown or wrong."""
    texts: dict[str, list[str]] = {}
    files: dict[str, tuple[str, bytes]] = {}
    try:
        async with request.form(max_files=4, max_fields=3000) as form:
            for name, value in form.multi_items():
                if not isinstance(value, UploadFile):
                    texts.setdefault(name, []).append(value)
                elif value.filename or value.size:
                    files[name] = (value.filename or "", await value.read())
    except UnicodeError:  # The sender names the encoding
        raise RequestError("the form cannot be read; send it as UTF-8") from None
    return Posted(texts, files)


PageNumber = Annotated[int, Query(ge=1, le=10_000_000)]
Form = Annotated[Posted, Depends(posted)]


class PageRoute(GuardedRoute):
    """A route whose errors are pages, and which asks visitors to sign in."""

    def get_route_handler(self) -> Handler:
        """Return the route's handler, whose errors become error pages."""
        handler = super().get_route_handler()

        async def caught(request: Request) -> Response:
            try:
                return await handler(request)
            except AuthenticationError:
                target = request.url.path + (f"?{query}" if (query := request.url.query) else "")
                return redirect("/sign-in", next=target if request.method == "GET" else "")
            except RequestValidationError as error:
                first = error.errors()[0]
                field = ".".join(map(str, first["loc"][1:]))
                reason: Exception = RequestError(f"{field}: {first['msg']}")
            except (RapporError, HTTPException) as error:
                reason = error
            return error_page(request, reason, await run_in_threadpool(_whoever, request, reason))

        return caught


def page_router() -> APIRouter:
    """Return a router of pages, which the API's description omits."""
    return APIRouter(route_class=PageRoute, include_in_schema=False)


def render(
    request: Request, name: str, person: Person | None = None, status: int = 200, **context: Any
) -> HTMLResponse:
    """Render a template of `templates/` as a page; `person` is the signed-in person."""
    may = {act.value: person is not None and person.may(act) for act in Act}
    template, tiles = environment().get_template(name), request.app.state.service.settings.map_tiles
    context |= {"path": request.url.path, "person": person, "may": may, "tiles": tiles}
    headers = dict(HEADERS)
    if tiles is not None:  # Map tiles come from another server
        kind = "connect-src" if tiles.is_vector else "img-src"
        headers[POLICY] += f"; {kind} 'self' {tiles.origin}"
    return HTMLResponse(template.render(context), status, headers=headers)


@dataclass(frozen=True, slots=True)
class PageVisit:
    """The request for a page, with the service and the signed-in person."""

    request: Request
    service: DecoderService
    person: Person

    def render(self, name: str, status: int = 200, **context: Any) -> HTMLResponse:
        """Render a template of `templates/` as a page."""
        return render(self.request, name, self.person, status, **context)

    def render_form(self, name: str, error: ServiceError | None, **context: Any) -> HTMLResponse:
        """Render a page with a form, after a rejected entry with its error.

        Raises the error if a different entry cannot help."""
        if error is None:
            return self.render(name, problem="", wrong="", **context)
        status = status_of(error)
        if status not in _MENDABLE:
            raise error
        problem, wrong = str(error).partition(_FOR_PROGRAMS)[0], getattr(error, "field", "")
        return self.render(name, status, problem=problem, wrong=wrong, **context)

    def rows(self, resources: Resources[Any], page: int, *which: Any) -> dict[str, Any]:
        """Return page `page` of the visible rows, for a template: `rows`, `more` and `page`."""
        rows = resources.all(self.person, *which, limit=PAGE + 1, offset=(page - 1) * PAGE)
        return {"rows": rows[:PAGE], "more": len(rows) > PAGE, "page": page}


def _visit(request: Request, service: Service, person: Me) -> PageVisit:
    return PageVisit(request, service, person)


Visit = Annotated[PageVisit, Depends(_visit)]


def environment() -> Environment:
    """Return the templates of the pages and of the reports, with style and scripts as files."""
    templates = page_environment(ASSETS, *_features())
    templates.filters |= {"visible": visible, "moment": moment}
    templates.filters["from_json"] = json.loads
    levels = {"default_alpha": str(DEFAULT_ALPHA), "default_level": str(DEFAULT_LEVEL)}
    templates.globals |= {"address": address, **levels}
    return templates


@cache
def _features() -> tuple[str, ...]:
    some = sorted(files("decoder_service").iterdir(), key=lambda item: item.name)
    return tuple(f"decoder_service.{item.name}" for item in some if (item / "templates").is_dir())


def moment(seconds: float | None) -> str:
    """Format seconds since 1970 as `YYYY-MM-DD HH:MM`, UTC; "" for None."""
    return "" if seconds is None else text_of(seconds)[:16].replace("T", " ")


def address(path: str, **query: Any) -> str:
    """Return the URL of a path of the service, with all nonempty query parameters."""
    members = {name: value for name, value in query.items() if value not in (None, "", False)}
    return quote(path) + ("?" + urlencode(members, doseq=True) if members else "")


def redirect(path: str, **query: Any) -> RedirectResponse:
    """Redirect the browser to another page."""
    return RedirectResponse(address(path, **query), 303, headers=HEADERS)


def _whoever(request: Request, error: Exception) -> Person | None:
    """Return the signed-in person, for the menu of an error page; None if unknown."""
    try:
        return None if is_unreachable(error) else current_person(request)
    except RapporError:
        return None


def error_page(request: Request, error: Exception, person: Person | None = None) -> Response:
    """Return the page for an error, with the remedy; `person` is the signed-in person."""
    if isinstance(error, HTTPException):
        status, text = error.status_code, str(error.detail)
    else:
        status = status_of(error)
        message, full = str(error).partition(_FOR_PROGRAMS)[0], isinstance(error, DiskFullError)
        text = DISK_FULL if full else _RETRY if is_unreachable(error) else message
    return render(request, "error.html.j2", person, status, text=text, number=status)


def unknown_page(request: Request) -> Response | None:
    """Return the error page for an unknown address; None if a program, not a browser, asks."""
    program = request.url.path.startswith(("/v1/", ASSETS))
    if program or "text/html" not in request.headers.get("accept", ""):
        return None
    error = NotFoundError(f"there is no page {visible(request.url.path[:80])}")
    return error_page(request, error, _whoever(request, error))


def parsed(model: type[Known], values: dict[str, Any]) -> Known:
    """Validate a form with one of the service's models, or raise RequestError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        name, message = first_problem(error)
        raise RequestError(f"{name}: {message}" if name else message) from None


def add_form(
    pages: APIRouter, path: str, act: Callable[..., Any], back: str, sure: str = ""
) -> None:
    """Add a form to the pages that does the same as an API route.

    Args:
        pages: The router to which the form's route is added.
        path: The path of the form's route, with the parameters of the API's route.
        act: The function of the API's route, whose body has only strings and flags.
        back: The page to show afterward.
        sure: The label of the checkbox that confirms the action; "" for no checkbox.
    """
    others = {"service", "person", "return", *re.findall(r"{(\w+)}", path)}
    hints = get_type_hints(act, include_extras=True)
    fields: dict[str, Any] = {name: hints[name] for name in hints if name not in others}
    definitions: Any = {name: (hint, ...) for name, hint in fields.items()}
    body = create_model("Form", **definitions)

    def post(request: Request, service: Service, person: Me, form: Form) -> Response:
        if sure and not form.text("sure"):  # The action cannot be undone
            raise RequestError(f"check the box next to {sure}")
        arguments: dict[str, Any] = {"service": service, "person": person, **request.path_params}
        texts: dict[str, Any] = {
            name: bool(form.text(name)) if hint is Flag else form.text(name)
            for name, hint in fields.items()
        }
        act(**arguments, **parsed(body, texts).model_dump())
        return redirect(back.format(**request.path_params))

    pages.add_api_route(path, post, methods=["POST"])


pages = page_router()


@pages.get(ASSETS + "{name}")
@without_key
def asset(request: Request, name: str) -> Response:
    """Return a stylesheet or a script of the pages."""
    static = files("decoder_service.shell").joinpath("static")
    kind = "text/css" if name.endswith(".css") else "text/javascript"
    if name == "page.css":
        mine = static.joinpath("service.css").read_text(encoding="utf-8")
        text = stylesheet() + map_stylesheet() + mine
    elif name in SCRIPTS:
        text = script(name)
    elif name in OWN_SCRIPTS:
        text = static.joinpath(name).read_text(encoding="utf-8")
    else:
        raise HTTPException(404, f"there is no file {name[:60]!a}")
    tag = f'"{sha256(text.encode()).hexdigest()[:16]}"'
    headers = {"ETag": tag, "Cache-Control": "no-cache"}
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(text, media_type=f"{kind}; charset=utf-8", headers=headers)


@pages.get("/favicon.ico")
@without_key
def favicon() -> Response:
    """Answer that there is no icon."""
    return Response(status_code=204)
