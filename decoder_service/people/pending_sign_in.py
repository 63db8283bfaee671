"""A sign-in at an identity provider that was begun: what the browser keeps of it."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass

from decoder_service.shell.errors import AuthenticationError

PENDING_SECONDS = 600  # for a person to sign in at the provider


@dataclass(frozen=True, slots=True)
class Pending:
    """A sign-in that was begun. there: the page that the person wanted.  began: seconds."""

    state: str
    nonce: str
    verifier: str
    there: str
    began: float

    def to_cookie(self) -> str:
        """As the browser keeps it."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def from_cookie(cls, text: str) -> Pending:
        """Raises AuthenticationError for what is no such cookie."""
        try:
            found = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
            texts = {name: str(found[name]) for name in ("state", "nonce", "verifier", "there")}
            pending = cls(**texts, began=float(found["began"]))
        except (ValueError, KeyError, TypeError):
            raise AuthenticationError("this sign-in was not begun here; begin again") from None
        if min(map(len, (pending.state, pending.nonce, pending.verifier))) < 43:
            raise AuthenticationError("this sign-in was not begun here; begin again")
        return pending
