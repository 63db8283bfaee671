"""A mobile app that asks, records and shows the account, with Toga."""

from __future__ import annotations

from pathlib import Path

import toga

from client_sdk import Client
from client_sdk.inspection import render

METRICS = Path(__file__).with_name("metrics.toml")


class StartPages(toga.App):
    """A start page to choose, a switch for the consent, and the account."""

    collector = "https://collector.example.org"

    def startup(self) -> None:
        """Build the window; the client's state is in the app's own data."""
        self.telemetry = Client.open(
            METRICS,
            state_dir=self.paths.data / "telemetry",
            collector=self.collector,
            consent=(self.paths.data / "agreed").exists(),
        )
        self.page = toga.TextInput(value="https://example.org/")
        self.agreed = toga.Switch(
            "Send randomized reports",
            value=(self.paths.data / "agreed").exists(),
            on_change=self.decide,
        )
        self.account = toga.MultilineTextInput(readonly=True)
        use = toga.Button("Use as start page", on_press=self.choose)
        box = toga.Box(children=[self.page, use, self.agreed, self.account])
        self.main_window = toga.MainWindow(title=self.formal_name, content=box)
        self.show_account()
        self.main_window.show()

    def decide(self, widget: toga.Switch) -> None:
        """Keep the answer, and act on it."""
        mark = self.paths.data / "agreed"
        mark.parent.mkdir(parents=True, exist_ok=True)
        mark.touch() if widget.value else mark.unlink(missing_ok=True)
        self.telemetry.set_consent(widget.value)
        self.show_account()

    def choose(self, widget: toga.Button) -> None:
        """Record what the person chose."""
        self.telemetry.record("homepage", self.page.value)
        self.show_account()

    def show_account(self) -> None:
        """What is queued, what was sent and what can be inferred, for the person."""
        self.account.value = render(self.telemetry.inspect())


def main() -> StartPages:
    """The app, as BeeWare starts it."""
    return StartPages("Start pages", "org.example.startpages")
