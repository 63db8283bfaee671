"""Sign-in through an OpenID Connect provider (Authlib) or a trusted proxy's header.

Authlib makes the requests (code flow with PKCE, state and nonce) and reads the ID token. Nothing is
stored until a sign-in has succeeded: the state of the flow is in a signed cookie of the browser."""

import ssl
import time
import warnings
from base64 import b64encode
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from typing import Any
from urllib.parse import quote_plus, urlsplit

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.deprecate import AuthlibDeprecationWarning
from joserfc.errors import JoseError
from joserfc.jwk import KeySet
from starlette.requests import Request

from decoder_service.people.permissions import Claimed, Role
from decoder_service.shell.errors import NoGroupError, UnavailableError
from decoder_service.shell.settings import ServiceSettings, is_safe_url, secret_text
from rappor_core.failures import failure_reason
from rappor_server.errors import AuthenticationError

with warnings.catch_warnings():
    warnings.simplefilter("ignore", AuthlibDeprecationWarning)  # about httpx, for its successor
    from authlib.integrations.starlette_client import StarletteIntegration, StarletteOAuth2App

BACK = "/sign-in/provider/back"  # the path to which a provider redirects browsers
PROXY = "proxy"  # the issuer of people named by a trusted proxy
PENDING_SECONDS = 600  # the time limit to sign in at the provider
_KEEP_SECONDS = 3600.0  # the time for which a provider's metadata is cached
_LEEWAY = 60  # the tolerated difference of two clocks, in seconds
_TIMEOUT = 5.0
_MAX_TABS = 5  # the maximum number of tabs that sign in concurrently; a cookie has 4 KiB
_ENDPOINTS = ("authorization_endpoint", "token_endpoint", "jwks_uri")
_ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
               "EdDSA", "Ed25519")  # fmt: skip  # none with a shared secret, and not "none"
_FAILED = "the identity provider's answer cannot be taken: {}; sign in again"
MAX_SUBJECT = 255
_MAX_NAME = 100
_NAMES = ("preferred_username", "email", "name")


class _TabStates(StarletteIntegration):  # type: ignore[misc]
    """The sign-in states of several browser tabs, because Authlib stores only the latest state."""

    expires_in = PENDING_SECONDS

    async def set_state_data(self, session: dict[str, Any], state: str, data: Any) -> None:
        self._clear_session_state(session)
        for name in list(session)[: max(0, len(session) + 1 - _MAX_TABS)]:
            session.pop(name)
        content = {name: value for name, value in data.items() if name != "url"}
        exp = time.time() + self.expires_in
        session[f"_state_{self.name}_{state}"] = {"data": content, "exp": exp}

    async def get_state_data(self, session: dict[str, Any], state: str) -> Any:
        self._clear_session_state(session)  # removes the states of tabs that took too long
        return await super().get_state_data(session, state)


class Provider(StarletteOAuth2App):  # type: ignore[misc]
    """The identity provider; its metadata is fetched at the first sign-in and cached an hour."""

    server_metadata: dict[str, Any]

    def __init__(self, settings: ServiceSettings) -> None:
        self.issuer = settings.oidc_issuer or ""
        self.host = urlsplit(self.issuer).hostname or self.issuer  # its name for people
        self.back = (settings.public_url or "").rstrip("/") + BACK
        self.settings = settings
        super().__init__(
            _TabStates("provider"),
            name="provider",
            client_id=settings.oidc_client_id,
            client_secret=secret_text(settings.oidc_client_secret),  # else PKCE alone protects
            server_metadata_url=self.issuer.rstrip("/") + "/.well-known/openid-configuration",
            client_kwargs={
                "scope": settings.oidc_scopes,
                "code_challenge_method": "S256",
                "timeout": _TIMEOUT,
                "verify": ssl.create_default_context(),  # created once, because that is slow
            },
        )

    async def begin(self, request: Request, there: str) -> str:
        """Start a sign-in; return the URL for the browser. Raises UnavailableError.

        `there` is the page that the person wanted."""
        with self._errors():
            content = await self.create_authorization_url(self.back)
            await self.save_authorize_data(request, redirect_uri=self.back, there=there, **content)
            return str(content["url"])

    async def finish(self, request: Request) -> tuple[Claimed, str]:
        """Finish the sign-in of a browser that returned from the provider.

        Returns:
            The person, and the page that they wanted.

        Raises:
            AuthenticationError, RoleError, UnavailableError.
        """
        query = request.query_params
        pending = await self.framework.get_state_data(request.session, query.get("state", ""))
        if pending is None:
            raise AuthenticationError(
                "this sign-in did not start here, or took too long; start again"
            )
        if query.get("iss", self.issuer) != self.issuer:
            raise AuthenticationError(_FAILED.format("it is from another issuer"))
        expected = {"iss": self.issuer, "aud": self.client_id}
        options = {name: {"essential": True, "value": value} for name, value in expected.items()}
        with self._errors():
            token = await self.authorize_access_token(
                request, claims_options=options | {"sub": {"essential": True}}, leeway=_LEEWAY
            )
            if "userinfo" not in token:
                raise AuthenticationError(_FAILED.format("it has no ID token"))
            claims = token["userinfo"]  # the claims in the ID token
            lists_groups = _at(claims, self.settings.oidc_role_claim) is not None
            if not lists_groups and "userinfo_endpoint" in self.server_metadata:
                answer = await self.userinfo(token=token)
                if answer.get("sub") != claims["sub"]:
                    raise AuthenticationError(_FAILED.format("its two answers name two people"))
                claims = {**answer, **claims}
        person = claimed(claims, self.settings, self.settings.oidc_role_claim)
        return person, str(pending["there"])

    async def leave_url(self, back: str) -> str | None:
        """Return the URL of the provider's sign-out page, or None."""
        try:
            with self._errors():
                end = (await self.load_server_metadata()).get("end_session_endpoint")
        except UnavailableError:
            return None
        query = {"client_id": self.client_id, "post_logout_redirect_uri": back}
        return str(httpx.URL(end).copy_merge_params(query)) if isinstance(end, str) else None

    async def load_server_metadata(self) -> dict[str, Any]:
        """Return the provider's metadata. Raises ValueError if it is not safe."""
        if time.time() - self.server_metadata.get("_loaded_at", 0.0) > _KEEP_SECONDS:
            self.server_metadata = {}
        metadata: dict[str, Any] = await super().load_server_metadata()
        problems = [name for name in _ENDPOINTS if not is_safe_url(str(metadata.get(name)))]
        if not is_safe_url(str(metadata.get("userinfo_endpoint", self.issuer))):
            problems.append("userinfo_endpoint")  # the access token would be sent there
        if metadata.get("issuer") != self.issuer:
            problems.append("issuer")
        if problems:
            self.server_metadata = {}
            raise ValueError(f"wrong: {', '.join(problems)}")
        metadata["id_token_signing_alg_values_supported"] = list(_ALGORITHMS)
        return metadata

    async def fetch_jwk_set(self, force: bool = False) -> dict[str, Any]:
        """Return the provider's keys, without keys of new kinds, which cannot be imported."""
        content = await super().fetch_jwk_set(force)
        return {"keys": [key for key in content["keys"] if _is_importable(key)]}

    def _get_oauth_client(self, **metadata: Any) -> Any:
        offered = metadata.get("token_endpoint_auth_methods_supported", ["client_secret_basic"])
        method = "client_secret_basic" if "client_secret_basic" in offered else "client_secret_post"
        chosen = {"token_endpoint_auth_method": method if self.client_secret else "none"}
        client = super()._get_oauth_client(**metadata, **chosen)
        client.register_client_auth_method(("client_secret_basic", _basic))
        return client

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Convert errors of the exchange with the provider to the service's, with a reason."""
        try:
            yield
        except (AuthlibBaseError, JoseError) as error:
            raise AuthenticationError(_FAILED.format(_named(error))) from None
        except (httpx.HTTPError, httpx.InvalidURL, ValueError, LookupError, TypeError,
                AttributeError) as error:  # fmt: skip
            raise UnavailableError(
                f"the identity provider at {self.host} does not answer as it should "
                f"({failure_reason(error)}); try again later, or sign in with a key"
            ) from None


def _basic(client: Any, _method: str, url: str, headers: Any, body: Any) -> tuple[str, Any, Any]:
    """Add client authentication to a token request, as in RFC 6749, 2.3.1 (form-encoded)."""
    text = f"{quote_plus(client.client_id)}:{quote_plus(client.client_secret)}"
    headers["Authorization"] = f"Basic {b64encode(text.encode()).decode()}"
    return url, headers, body


def _is_importable(key: Any) -> bool:
    try:
        KeySet.import_key_set({"keys": [key]})
    except (JoseError, ValueError, TypeError, KeyError):
        return False
    return True


def _named(error: Exception) -> str:
    code = getattr(error, "claim", None) or getattr(error, "error", None) or type(error).__name__
    return ascii(str(code)[:60])


def claimed(claims: Mapping[str, Any], settings: ServiceSettings, claim: str) -> Claimed:
    """Return the person and role in claims from a provider or a trusted proxy.

    Args:
        claims: The claims by name.
        settings: The settings with the groups of each role.
        claim: The claim that lists the person's groups; `a.b` is b within a.

    Raises:
        AuthenticationError, NoGroupError.
    """
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= MAX_SUBJECT:
        raise AuthenticationError("the identity provider names no subject")
    value = _at(claims, claim)
    listed = [value] if isinstance(value, str) else value or ()
    groups = {item for item in listed if isinstance(item, str)}
    by_role = (settings.oidc_viewers, settings.oidc_analysts, settings.oidc_admins)
    theirs = [role for role, names in zip(Role, by_role, strict=True) if groups & {*names}]
    name = theirs[-1] if theirs else settings.oidc_everyone
    if not name:
        raise NoGroupError(
            "you are signed in at the identity provider, but in no group that may use this "
            "service; ask an admin",
            subject,
        )
    return Claimed(subject, _name(claims, subject), Role(name))


def claimed_by_proxy(request: Request, settings: ServiceSettings) -> Claimed | None:
    """Return the person whom a trusted proxy names in its header; None if there is no header.

    Raises AuthenticationError if the header is repeated, because one may be the browser's own, or
    NoGroupError."""
    if settings.user_header is None or request.client is None:
        return None
    peer = ip_address(request.client.host)
    peer = getattr(peer, "ipv4_mapped", None) or peer
    names = request.headers.getlist(settings.user_header)
    listed = request.headers.getlist(settings.groups_header or "")
    if not names or not any(peer in address for address in settings.forwarded_allow_ips):
        return None
    if len(names) > 1 or len(listed) > 1:
        raise AuthenticationError("the proxy must replace headers that name people, not add one")
    groups = [group.strip() for group in ",".join(listed).split(",")]
    return claimed({"sub": names[0].strip(), "groups": groups}, settings, "groups")


def _at(claims: Mapping[str, Any], path: str) -> Any:
    """Return the claim at a path: a whole name (which may have dots), or names joined by dots."""
    value: Any = claims
    for part in [path] if path in claims else path.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value if isinstance(value, str | list) else None


def _name(claims: Mapping[str, Any], subject: str) -> str:
    for claim in _NAMES:
        text = claims.get(claim)
        if isinstance(text, str) and text.strip().isprintable() and text.strip():
            return text.strip()[:_MAX_NAME].strip()
    return subject if subject.isprintable() else ascii(subject)[1:-1][:_MAX_NAME]
