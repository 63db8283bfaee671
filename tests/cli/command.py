"""`rappor` as a person runs it: words in, an exit code and what is said out."""

import json
from pathlib import Path

import pytest

from rappor_cli.main import main


class Rappor:
    """Runs commands; `out` and `err` are what the last one said."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys
        self.out = self.err = ""

    def __call__(self, *words: object, code: int = 0) -> str:
        """What a command prints; it must end with this exit code."""
        self._capsys.readouterr()
        found = main([str(word) for word in words])
        self.out, self.err = self._capsys.readouterr()
        assert found == code, self.err
        return self.out

    def refused(self, *words: object, code: int = 1) -> str:
        """Why a command refuses."""
        self(*words, code=code)
        return " ".join(self.err.split())


def warned(text: str, devices: int, folder: Path, rappor: Rappor) -> list[str]:
    """What `rappor metrics check` warns of in the text of a metrics.toml."""
    file = folder / "checked.toml"
    file.write_text(text)
    found = json.loads(rappor("metrics", "check", file, "--population", devices, "--json"))
    return [one["message"] for one in found if one["level"] != "note"]
