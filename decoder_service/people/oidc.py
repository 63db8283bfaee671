"""Signing in through an OpenID Connect provider: the code flow with PKCE, state and nonce.

Authlib makes the requests and checks the claims. Nothing is stored until a sign-in has succeeded:
what the flow needs lies in a cookie of the browser that began it, and nobody else can end it.
"""

from __future__ import annotations

import hmac
import secrets
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

import httpx
from authlib.common.errors import AuthlibBaseError
from authlib.oauth2.auth import ClientAuth
from authlib.oauth2.client import OAuth2Client
from authlib.oidc.core import CodeIDToken
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import KeySet

from decoder_service.people.pending_sign_in import PENDING_SECONDS, Pending
from decoder_service.people.provider_roles import Claimed, ProviderRoles
from decoder_service.shell.clock import Clock
from decoder_service.shell.errors import AuthenticationError, UnavailableError
from decoder_service.shell.settings import is_safe_url

_KEEP_SECONDS = 3600.0  # what a provider says of itself
_LEEWAY = 60  # seconds between two clocks
_TIMEOUT = 5.0
_AT_ONCE = 8  # sign-ins that wait for the provider; each holds one of the service's 40 threads
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512",
              "EdDSA", "Ed25519")  # fmt: skip  # none with a shared secret, and not "none"
_FAILED = "the identity provider's answer cannot be taken: {}; sign in again"


@dataclass(frozen=True, slots=True)
class RegisteredClient:
    """The service's registration at the identity provider. back: the URL to which browsers
    return.

    secret: None for a public client, which PKCE alone protects.
    """

    issuer: str
    client_id: str
    secret: str | None
    scopes: str
    back: str


class _ClientAuth(ClientAuth, httpx.Auth):  # type: ignore[misc]
    """How the service says at the token endpoint who it is."""

    requires_request_body = True

    def auth_flow(self, request: httpx.Request) -> Iterator[httpx.Request]:  # type: ignore[override]
        url, headers, body = self.prepare(
            request.method, str(request.url), request.headers, request.content.decode()
        )
        headers["Content-Length"] = str(len(body))
        yield httpx.Request(request.method, url, headers=headers, content=body)


class _OAuth2Client(OAuth2Client):  # type: ignore[misc]
    client_auth_class = _ClientAuth


class Provider:
    """An OpenID Connect identity provider. Its configuration is fetched at the first sign-in and
    kept for an hour.

    Anyone may begin a sign-in, so that few wait for a provider at once; others are refused.
    """

    def __init__(self, client: RegisteredClient, roles: ProviderRoles, clock: Clock) -> None:
        self._client = client
        self._roles = roles
        self._clock = clock
        self._lock = threading.Lock()
        self._places = threading.BoundedSemaphore(_AT_ONCE)
        self._known: tuple[float, dict[str, Any], dict[str, Any]] | None = None

    @property
    def issuer(self) -> str:
        """The provider's address, which together with a subject identifies a person."""
        return self._client.issuer

    @property
    def name(self) -> str:
        """The provider's name for people."""
        return urlsplit(self._client.issuer).hostname or self._client.issuer

    def begin(self, there: str) -> tuple[str, Pending]:
        """Begin a sign-in: the address to send the browser to, and the state that it keeps.
        Raises UnavailableError."""
        state, nonce, verifier = (secrets.token_urlsafe(48) for _ in range(3))
        pending = Pending(state, nonce, verifier, there, self._clock().timestamp())
        with self._place(), self._session() as session:
            metadata, _ = self._metadata()
            url, _state = self._oauth(session).create_authorization_url(
                metadata["authorization_endpoint"],
                state=pending.state,
                nonce=pending.nonce,
                code_verifier=pending.verifier,
            )
        return str(url), pending

    def finish(self, pending: Pending, answer: Mapping[str, str]) -> Claimed:
        """Finish a sign-in, and identify the person who came back from the provider.

        Args:
            pending: of the same browser.
            answer: the query of the address that it came back to.

        Returns:
            Subject, name and role.

        Raises:
            AuthenticationError, RoleError, UnavailableError.
        """
        if not hmac.compare_digest(pending.state.encode(), answer.get("state", "").encode()):
            raise AuthenticationError("this sign-in was not begun here; begin again")
        if not 0 <= self._clock().timestamp() - pending.began <= PENDING_SECONDS:
            raise AuthenticationError("signing in took too long; begin again")
        if answer.get("iss", self.issuer) != self.issuer:
            raise AuthenticationError(_FAILED.format("it is of another issuer"))
        if "error" in answer or "code" not in answer:
            why = answer.get("error", "without a code")[:60]
            raise AuthenticationError(_FAILED.format(ascii(why)))
        with self._place():
            token = self._token(answer["code"], pending.verifier)
            claims = self._claims(token, pending.nonce)
            if not self._roles.has_groups(claims):
                claims = self._userinfo(token, claims)
        return self._roles.claimed(claims)

    def leave_url(self, back: str) -> str | None:
        """The provider's page for signing out; None where it has none."""
        try:
            with self._place():
                metadata, _ = self._metadata()
        except UnavailableError:
            return None
        end = metadata.get("end_session_endpoint")
        if not isinstance(end, str):
            return None
        given = {"client_id": self._client.client_id, "post_logout_redirect_uri": back}
        return str(httpx.URL(end).copy_merge_params(given))

    @contextmanager
    def _place(self) -> Iterator[None]:
        """One of the few who wait for the provider. Raises UnavailableError where there is none."""
        if not self._places.acquire(blocking=False):
            raise UnavailableError(
                f"{_AT_ONCE} others are signing in through {self.name} at this moment; try again "
                "in a moment, or sign in with a key"
            )
        try:
            yield
        finally:
            self._places.release()

    def _token(self, code: str, verifier: str) -> dict[str, Any]:
        metadata, _ = self._metadata()
        with self._session() as session, _speaking(self.name):
            found: dict[str, Any] = self._oauth(session).fetch_token(
                metadata["token_endpoint"],
                grant_type="authorization_code",
                code=code,
                code_verifier=verifier,
            )
        return found

    def _claims(self, token: Mapping[str, Any], nonce: str) -> dict[str, Any]:
        """The claims of the ID token, once its signature and they are checked."""
        text = token.get("id_token")
        if not isinstance(text, str):
            raise AuthenticationError(_FAILED.format("it has no ID token"))
        try:
            decoded = self._decoded(text)
            claims = CodeIDToken(
                decoded.claims,
                decoded.header,
                options={
                    "iss": {"essential": True, "value": self.issuer},
                    "aud": {"essential": True, "value": self._client.client_id},
                    "sub": {"essential": True},
                },
                params={
                    "nonce": nonce,
                    "client_id": self._client.client_id,
                    "access_token": token.get("access_token"),
                },
            )
            claims.validate(now=int(self._clock().timestamp()), leeway=_LEEWAY)
        except (JoseError, ValueError, TypeError, KeyError) as error:
            raise AuthenticationError(_FAILED.format(_named(error))) from None
        return dict(claims)

    def _decoded(self, text: str) -> jwt.Token:
        """The signed ID token; keys are asked for again where none of those known fits."""
        for fresh in (False, True):
            _, keys = self._metadata(fresh=fresh)
            try:
                known = KeySet.import_key_set(keys)  # type: ignore[arg-type]
                return jwt.decode(text, known, algorithms=list(ALGORITHMS))
            except (JoseError, ValueError) as error:
                problem = error
        raise problem

    def _userinfo(self, token: Mapping[str, Any], claims: dict[str, Any]) -> dict[str, Any]:
        """The claims with those that the provider tells apart from the ID token."""
        metadata, _ = self._metadata()
        url, access = metadata.get("userinfo_endpoint"), token.get("access_token")
        if not isinstance(url, str) or not isinstance(access, str):
            return claims
        with self._session() as session, _speaking(self.name):
            if not is_safe_url(url):  # the access token would go there
                raise ValueError("userinfo_endpoint")
            answer = session.get(url, headers={"Authorization": f"Bearer {access}"})
            found = answer.raise_for_status().json()
        if not isinstance(found, dict) or found.get("sub") != claims["sub"]:
            raise AuthenticationError(_FAILED.format("its two answers are of two people"))
        return {**found, **claims}

    def _metadata(self, *, fresh: bool = False) -> tuple[dict[str, Any], dict[str, Any]]:
        """What the provider says of itself, and its keys. Raises UnavailableError."""
        with self._lock:
            now = time.monotonic()
            if self._known is None or now - self._known[0] > (10.0 if fresh else _KEEP_SECONDS):
                self._known = (now, *self._asked())
            return self._known[1:]

    def _asked(self) -> tuple[dict[str, Any], dict[str, Any]]:
        well_known = self.issuer.rstrip("/") + "/.well-known/openid-configuration"
        with self._session() as session, _speaking(self.name):
            metadata = session.get(well_known).raise_for_status().json()
            if metadata["issuer"] != self.issuer:
                raise ValueError("issuer")
            for name in ("authorization_endpoint", "token_endpoint", "jwks_uri"):
                if not is_safe_url(str(metadata[name])):
                    raise ValueError(name)
            keys = session.get(metadata["jwks_uri"]).raise_for_status().json()
            return dict(metadata), dict(keys)

    def _oauth(self, session: httpx.Client) -> OAuth2Client:
        return _OAuth2Client(
            session,
            client_id=self._client.client_id,
            client_secret=self._client.secret,
            scope=self._client.scopes,
            redirect_uri=self._client.back,
            code_challenge_method="S256",
        )

    def _session(self) -> httpx.Client:
        return httpx.Client(timeout=_TIMEOUT, follow_redirects=False, trust_env=False)


@contextmanager
def _speaking(name: str) -> Iterator[None]:
    """Turn what goes wrong between service and provider into errors in words."""
    try:
        yield
    except AuthlibBaseError as error:
        raise AuthenticationError(_FAILED.format(_named(error))) from None
    except (httpx.HTTPError, httpx.InvalidURL, ValueError, KeyError, TypeError) as error:
        raise UnavailableError(
            f"the identity provider at {name} does not answer as it should "
            f"({type(error).__name__}); try again later, or sign in with a key"
        ) from None


def _named(error: BaseException) -> str:
    """An error without what a stranger wrote."""
    code = getattr(error, "claim", None) or getattr(error, "error", None) or type(error).__name__
    return ascii(str(code)[:60])
