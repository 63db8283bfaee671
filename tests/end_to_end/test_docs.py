"""Docs that cannot go stale: their Python runs, and their commands exist."""

import re
import shlex
from datetime import date
from pathlib import Path

import pytest

from docs.tools.doc_tables import BLOCK
from metric_design.review import check_metrics
from rappor_cli.commands import load
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.kinds import KINDS

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


ROOT_CLAIMS_PAGE = Path(__file__).parents[2]
DOCS = ROOT_CLAIMS_PAGE / "docs"
ROW = re.compile(r"^\| .+? \| \[\w+\]\(([\w/]+\.md)#([\w-]+)\) \| (`.+`) \|$")


def headings(page: Path) -> set[str]:
    """The anchors that GitHub and the site give to the headings of a page."""
    text = re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)
    bare = [re.sub(r"[^\w\s-]", "", one.lower()) for one in re.findall(r"^#+ (.+)$", text, re.M)]
    return {re.sub(r"\s", "-", one.strip()) for one in bare}


def test_every_row_of_the_claims_leads_somewhere() -> None:
    lines = (DOCS / "claims.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("|")]
    rows = [line for line in rows if not line.startswith(("| claim |", "|---"))]
    assert rows
    for row in rows:
        match = ROW.match(row)
        assert match, row
        page, anchor, tests = match.groups()
        assert anchor in headings(DOCS / page), row
        for test in re.findall(r"`(.+?)`", tests):
            path, _, function = test.partition("::")
            text = (ROOT_CLAIMS_PAGE / path).read_text(encoding="utf-8")
            assert not function or re.search(rf"^(?:async )?def {function}\(", text, re.M), test


ROOT_METRICS_PAGE = Path(__file__).parents[2]
PAGE = (ROOT_METRICS_PAGE / "docs" / "metrics.md").read_text()
TOML = re.compile(r"^```toml\n(.*?)^```", re.M | re.S)
TODAY = date(2026, 11, 22)


def test_every_kind_has_an_example_that_passes() -> None:
    kinds = set()
    for text in TOML.findall(PAGE):
        file = parse_metrics(text)
        kinds |= {metric.kind for metric in file.declared}
        findings = list(check_metrics(file, today=TODAY, population=1_000_000))
        assert not [f for f in findings if f.level == "error"]
    assert kinds == set(KINDS)
