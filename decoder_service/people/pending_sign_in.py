"""The state of a sign-in at an identity provider, which the browser keeps in a cookie meanwhile."""

from __future__ import annotations

import base64
import json
from dataclasses import asdict, dataclass

from decoder_service.shell.errors import AuthenticationError

PENDING_SECONDS = 600  # for a person to sign in at the provider


@dataclass(frozen=True, slots=True)
class Pending:
    """The state of a begun sign-in. there: the page that the person wanted. began: seconds."""

    state: str
    nonce: str
    verifier: str
    there: str
    began: float

    def to_cookie(self) -> str:
        """The state as the text of a cookie."""
        return base64.urlsafe_b64encode(json.dumps(asdict(self)).encode()).decode()

    @classmethod
    def from_cookie(cls, text: str) -> Pending:
        """Read the state from a cookie's text. Raises AuthenticationError if it is malformed."""
        try:
            found = json.loads(base64.urlsafe_b64decode(text.encode("ascii")))
            texts = {name: str(found[name]) for name in ("state", "nonce", "verifier", "there")}
            pending = cls(**texts, began=float(found["began"]))
        except (ValueError, KeyError, TypeError):
            raise AuthenticationError("this sign-in was not begun here; begin again") from None
        if min(map(len, (pending.state, pending.nonce, pending.verifier))) < 43:
            raise AuthenticationError("this sign-in was not begun here; begin again")
        return pending
