"""A provider of OpenID Connect from npm as a process, and a browser that signs people in there."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from html import unescape
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx
import pytest

from tests.decoder_service.support import Running, running
from tests.free_ports import free_port

HERE = Path(__file__).parent / "oidc_provider"
CLIENT = "decoder"
SECRET = "a-secret-of-the-client"
PEOPLE: dict[str, dict[str, Any]] = {
    "olga": {"preferred_username": "olga", "groups": ["staff", "decoder-admins"]},
    "adam": {"preferred_username": "adam", "groups": ["decoder-analysts"]},
    "vera": {"preferred_username": "vera", "groups": "decoder-viewers"},
    "nina": {"preferred_username": "nina", "groups": ["staff"]},
}
ROLES = {
    "oidc_viewers": ("decoder-viewers",),
    "oidc_analysts": ("decoder-analysts",),
    "oidc_admins": ("decoder-admins",),
}


@pytest.fixture(scope="session")
def provider_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The provider with its modules, as its lock file names them."""
    npm = shutil.which("npm")
    if npm is None or shutil.which("node") is None:
        pytest.skip("no Node and npm on this machine: no provider of OpenID Connect")
    folder = tmp_path_factory.mktemp("oidc") / "provider"
    shutil.copytree(HERE, folder, ignore=shutil.ignore_patterns("node_modules"))
    subprocess.run([npm, "ci", "--no-audit", "--no-fund", "--silent"], cwd=folder, check=True)
    return folder


@contextmanager
def provider(folder: Path, public: str, **client: Any) -> Iterator[str]:
    """A provider that runs; its issuer."""
    port = free_port()
    given = {
        "client_id": CLIENT,
        "client_secret": SECRET,
        "redirect_uris": [f"{public}/sign-in/provider/back"],
        "post_logout_redirect_uris": [f"{public}/sign-in"],
        **client,
    }
    settings = json.dumps({"port": port, "client": given, "people": PEOPLE})
    started = subprocess.Popen(
        ["node", "provider.mjs", settings],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    try:
        assert started.stdout.readline() == "ready\n"
        yield f"http://127.0.0.1:{port}"
    finally:
        started.kill()
        started.communicate()


@contextmanager
def served_with_provider(
    folder: Path, database: str, *, client: dict[str, Any] | None = None, **changes: Any
) -> Iterator[tuple[Running, str]]:
    """The service behind a provider, and its issuer."""
    port = free_port()
    public = f"http://127.0.0.1:{port}"
    with provider(folder, public, **(client or {})) as issuer:
        given = {"oidc_issuer": issuer, "oidc_client_id": CLIENT, "oidc_client_secret": SECRET}
        settings = {"port": port, "public_url": public, "tick_seconds": 0, **given, **ROLES}
        with running(database, **(settings | changes)) as served:
            yield served, issuer


@dataclass
class Browser:
    """Follows links and forms, with the cookies of each host, and the way it went."""

    http: httpx.Client
    way: list[httpx.Response] = field(default_factory=list)

    def go(self, url: str) -> httpx.Response:
        """Follow redirects from an address to a page."""
        answer = self._step(self.http.get(url))
        while answer.is_redirect:
            answer = self._step(self.http.get(urljoin(str(answer.url), answer.headers["location"])))
        return answer

    def submit(self, page: httpx.Response, **texts: str) -> httpx.Response:
        """Send the form of a page, and follow."""
        action = re.search(r'<form[^>]* action="([^"]+)"', page.text)
        assert action, page.text[:500]
        hidden = re.findall(r'name="([^"]+)" value="([^"]*)"', page.text)
        url = urljoin(str(page.url), unescape(action[1]))
        answer = self._step(self.http.post(url, data={**dict(hidden), **texts}))
        return self.go(urljoin(url, answer.headers["location"])) if answer.is_redirect else answer

    def sign_in(self, service: str, who: str, there: str = "/lists") -> httpx.Response:
        """Sign in at the provider; the page that the service shows then."""
        page = self.go(f"{service}/sign-in/provider?next={there}")
        page = self.submit(page, login=who, password="any")
        return self.submit(page)  # what the service asks for is granted

    def _step(self, answer: httpx.Response) -> httpx.Response:
        self.way.append(answer)
        return answer


@contextmanager
def browser() -> Iterator[Browser]:
    with httpx.Client(timeout=20) as client:
        yield Browser(client)
