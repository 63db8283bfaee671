"""The telemetry of a desktop app: the person's answer, remembered, and an account to show."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from client_sdk import Client
from client_sdk.inspection import render

METRICS = Path(__file__).with_name("metrics.toml")


class Telemetry:
    """A client that records once the person has agreed, and can show what it did.

    folder: of the app's own data; the answer and the client's state are kept there.
    """

    def __init__(self, folder: Path, collector: str, key: str | None = None) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self._answer = folder / "telemetry.json"
        self.client = Client.open(
            METRICS, state_dir=folder / "telemetry", collector=collector, key=key,
            consent=bool(self.answer),
        )  # fmt: skip

    @property
    def answer(self) -> bool | None:
        """What the person said; None where nobody was asked yet."""
        if not self._answer.exists():
            return None
        return bool(json.loads(self._answer.read_text())["consent"])

    def decide(self, consent: bool) -> None:
        """Remember the answer and act on it: no means that queue and secret are wiped now."""
        self._answer.write_text(json.dumps({"consent": consent}))
        self.client.set_consent(consent)

    def account(self) -> str:
        """The queue, what was sent and what can be inferred, as text."""
        account: Mapping[str, object] = self.client.inspect()
        return render(account)
