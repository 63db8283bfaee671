"""Docs that cannot go stale: their Python runs, and their commands exist."""

import re
import shlex
from pathlib import Path

import pytest

from docs.tools.doc_tables import BLOCK
from rappor_cli.commands import load

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
FENCE = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)


def blocks(page: Path, language: str) -> list[str]:
    return [text for name, text in FENCE.findall(page.read_text()) if name == language]


def commands(page: Path) -> list[list[str]]:
    """`rappor ...` lines of the page's console blocks, and the commands of its marked tables."""
    lines = [shlex.split(block["command"])[1:] for block in BLOCK.finditer(page.read_text())]
    for text in blocks(page, "console") + blocks(page, "sh"):
        for line in text.replace("\\\n", " ").splitlines():
            words = shlex.split(line.removeprefix("$ "), comments=True)
            if words and words[0] == "rappor":
                lines.append(words[1:])
    return lines


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_python_of_a_page_runs_as_it_stands(page, tmp_path, monkeypatch, doc_files) -> None:
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, object] = {"__name__": "__docs__"}
    for number, text in enumerate(blocks(page, "python")):
        code = text.replace("flush(10)", "flush(0)")  # no collector answers here
        exec(compile(code, f"{page.name}, python block {number}", "exec"), namespace)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_commands_of_a_page_exist_with_their_options(page) -> None:
    for name, *words in commands(page):
        if name.startswith("-"):
            continue
        command = load(name)
        while hasattr(command, "commands"):
            word, *words = words
            assert word in command.commands, f"rappor {name} {word}"
            command = command.commands[word]
        known = {option for param in command.params for option in param.opts}
        known |= {option for param in command.params for option in param.secondary_opts}
        for word in words:
            if word.startswith("-") and not word.lstrip("-").replace(".", "").isdigit():
                option = word.split("=")[0]
                assert option in known | {"--help"}, f"rappor {name}: {option} in {page.name}"
