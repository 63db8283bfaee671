"""A desktop app that asks before it reports, and shows the person what it reports.

python app.py http://127.0.0.1:8000
"""

from __future__ import annotations

import sys
import tkinter as tk
from pathlib import Path
from tkinter import messagebox, scrolledtext

from telemetry import Telemetry

QUESTION = (
    "May this app tell us which start page you use?\n\nYour answer is randomized on this device "
    "before it leaves: we learn how frequent each page is, and of you next to nothing. You can "
    "look at what was sent, and say no, at any time."
)


class App(tk.Tk):
    """A window with a start page to choose, the consent and the account."""

    def __init__(self, telemetry: Telemetry) -> None:
        super().__init__()
        self.title("Start page")
        self.telemetry = telemetry
        self.page = tk.Entry(self, width=50)
        self.page.insert(0, "https://example.org/")
        self.page.pack(padx=12, pady=12)
        tk.Button(self, text="Use as start page", command=self.choose).pack(fill="x", padx=12)
        tk.Button(self, text="What is reported", command=self.inspect).pack(fill="x", padx=12)
        self.agreed = tk.BooleanVar(self, bool(telemetry.answer))
        tk.Checkbutton(
            self, text="Send randomized reports", variable=self.agreed, command=self.decide
        ).pack(pady=12)
        self.protocol("WM_DELETE_WINDOW", self.quit_now)

    def ask(self) -> None:
        """The consent dialog, once."""
        if self.telemetry.answer is None:
            self.agreed.set(messagebox.askyesno("Reports", QUESTION, default="no"))
            self.decide()

    def decide(self) -> None:
        self.telemetry.decide(self.agreed.get())

    def choose(self) -> None:
        self.telemetry.client.record("homepage", self.page.get())

    def inspect(self) -> scrolledtext.ScrolledText:
        """The page that shows the person what the device sent and what follows from it."""
        window = tk.Toplevel(self)
        window.title("What is reported")
        text = scrolledtext.ScrolledText(window, width=90, height=24)
        text.insert("1.0", self.telemetry.account())
        text.configure(state="disabled")
        text.pack(fill="both", expand=True)
        return text

    def quit_now(self) -> None:
        self.telemetry.client.close()
        self.destroy()


if __name__ == "__main__":
    app = App(Telemetry(Path.home() / ".start-page-app", sys.argv[1]))
    app.after(100, app.ask)
    app.mainloop()
