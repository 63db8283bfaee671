"""`POST /v1/ohttp`: a batch that a relay forwards but cannot read (RFC 9458).

The inner request is answered by the same code as any batch, and the answer is sealed. The request
has no sender, so all requests with one key share its rate limit.
"""

from collections.abc import Iterable

from starlette.types import Message, Receive, Scope, Send

from collector.domain.relay_keys import RelayKeys
from collector.errors import CollectorError, RelayKeyError, SenderShownError, UnsupportedMediaError
from collector.routes.dependencies import AppComponents, receive_body
from collector.routes.reports import REPORTS_PATH, ReportsEndpoint, headers_of, send_answer
from rappor_core.errors import EncapsulationError, UnknownKeyError
from rappor_core.ohttp.binary_http import (
    SIZE_STEP,
    BinaryRequest,
    BinaryResponse,
    decode_request,
    encode_response,
)
from rappor_core.ohttp.encapsulation import (
    OVERHEAD,
    REQUEST_TYPE,
    RESPONSE_TYPE,
    Exchange,
    decapsulate,
    key_id_of,
)
from rappor_server.errors import NotFoundError, RequestError
from rappor_server.problems import Problems
from rappor_server.request_bounds import BodyBounds

PASSED = frozenset(  # headers that a relay may pass on, because the exchange needs them
    {b"accept", b"connection", b"content-length", b"content-type", b"host"}
)
ALLOWED = frozenset({b"authorization", b"content-encoding", b"content-type"})  # of the inner one
_ANSWERED = frozenset({b"content-type", b"retry-after"})
_MAX_SHOWN = 200  # the maximum number of characters of names in a message
_HEADROOM = 8 << 10  # bytes of a binary message in addition to the batch
UNKNOWN_KEY = "https://iana.org/assignments/http-problem-types#ohttp-key"  # RFC 9458, section 5.3


class OhttpEndpoint:
    """The route as an ASGI application."""

    def __init__(self, parts: AppComponents, problems: Problems, keys: RelayKeys) -> None:
        self._parts = parts
        self._problems = problems
        self._keys = keys
        self._reports = ReportsEndpoint(parts, problems)
        most = parts.settings.max_body_bytes + _HEADROOM + OVERHEAD
        self._bounds = BodyBounds(most, parts.settings.body_seconds)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request; an error becomes a problem document."""
        try:
            plain, exchange = await self._open(scope, receive)
        except Exception as error:
            response = self._problems.answer(error)
            self._parts.telemetry.ohttp_refused.labels(str(response.status_code)).inc()
            await response(scope, receive, send)
            return
        answer = await self._answer(plain)
        body = exchange.seal_response(encode_response(answer, SIZE_STEP))
        await send_answer(send, 200, headers_of(RESPONSE_TYPE.encode(), body), body)

    async def _open(self, scope: Scope, receive: Receive) -> tuple[bytes, Exchange]:
        """Decrypt the inner request. The relay can read errors raised here: they are not sealed."""
        headers = dict(scope["headers"])
        refuse_shown_sender(headers.keys())
        kind = headers.get(b"content-type", b"").decode("latin-1").strip().lower()
        if kind != REQUEST_TYPE:
            raise UnsupportedMediaError(f"content type {kind[:80]!a} is not {REQUEST_TYPE}")
        body = await receive_body(scope, receive, self._bounds)
        try:
            opened = decapsulate(self._keys.private_keys(), body)
        except UnknownKeyError as error:
            raise RelayKeyError(str(error), type=UNKNOWN_KEY) from None
        self._parts.telemetry.ohttp_requests.labels(str(key_id_of(body))).inc()
        return opened

    async def _answer(self, plain: bytes) -> BinaryResponse:
        try:
            request = decode_request(plain)
            inner = _scope_of(request)
        except (EncapsulationError, CollectorError) as error:
            refused = self._problems.answer(error)
            return _answer_of(refused.status_code, refused.raw_headers, bytes(refused.body))
        return _answer_of(*await self._reports.respond(inner, _whole(request.content)))


def refuse_shown_sender(names: Iterable[bytes]) -> None:
    """Raise SenderShownError if a header is not in PASSED, because it may reveal the sender."""
    extra = sorted(set(names) - PASSED)
    if extra:
        listing = ", ".join(name.decode("latin-1") for name in extra)[:_MAX_SHOWN]
        raise SenderShownError(
            f"the request carries {listing}, which may show its sender: the relay must leave it out"
        )


def _scope_of(request: BinaryRequest) -> Scope:
    """Return the inner request as an ASGI scope for the batch route, without a sender.

    Raises NotFoundError for any other route, and RequestError for a header not in ALLOWED.
    """
    if (request.method, request.path) != (b"POST", REPORTS_PATH.encode()):
        raise NotFoundError(f"through a relay there is only POST {REPORTS_PATH}")
    for name, _ in request.fields:
        if name not in ALLOWED:
            raise RequestError(f"header {name.decode()[:60]!a} is not accepted through a relay")
    return {
        "type": "http",
        "method": "POST",
        "path": REPORTS_PATH,
        "headers": list(request.fields),
        "client": None,
    }


def _whole(body: bytes) -> Receive:
    async def receive() -> Message:
        return {"type": "http.request", "body": body, "more_body": False}

    return receive


def _answer_of(status: int, headers: list[tuple[bytes, bytes]], body: bytes) -> BinaryResponse:
    return BinaryResponse(
        status, tuple(header for header in headers if header[0] in _ANSWERED), body
    )
