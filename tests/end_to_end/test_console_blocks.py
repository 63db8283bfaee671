"""The commands of the operators' pages run as they are written, but for addresses and ids."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.end_to_end.test_readme import ROOT, Shell
from tests.free_ports import free_port

METRICS = """[metrics.homepage]
kind = "category"
categories = ["a", "b"]
description = "Home page"
owner = "web@example.org"
expires = 2099-01-01
epsilon_infinity = 2
epsilon_one = 1
keep_raw_days = 30
max_memoized_values = 2
fallback = "a"
"""
BLOCKS = re.compile(r"^```(?:console|sh)\n(.*?)^```", re.MULTILINE | re.DOTALL)
# They need a broker, PostgreSQL, a provider of identities, or reports of days that are over.
ELSEWHERE = re.compile(r"kafka|rappor consume|_BROKER|postgresql|_OIDC_|reports export")
NEEDS = {"rappor ohttp-keys retire 1": "rappor ohttp-keys create -o newer.keys"}
SERVES = re.compile(r"rappor (decoder )?serve\b")


def lines(page: str) -> list[str]:
    """The commands of a page that need nothing but the product."""
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    joined = "".join(BLOCKS.findall(text)).replace("\\\n", " ")
    bare = [re.sub(r"\s*&?(\s+#.*)?$", "", line.removeprefix("$ ")) for line in joined.splitlines()]
    return [line for line in bare if re.match(r"rappor |export ", line)
            and not ELSEWHERE.search(line)]  # fmt: skip


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    (tmp_path / "metrics.toml").write_text(METRICS)
    bash = Shell(tmp_path, free_port())
    bash.run(f'python() {{ "{sys.executable}" "$@"; }}')
    yield bash
    bash.close()


READY = """python -c "
import time, urllib.request
for _ in range(600):
    try:
        urllib.request.urlopen('http://127.0.0.1:PORT/healthz')
        break
    except OSError:
        time.sleep(0.1)
else:
    raise SystemExit('it is not ready')"
"""


def serve(shell: Shell, command: str) -> None:
    """Start a server on a free port, wait until it is ready, and end it as an operator does."""
    port = str(free_port())
    program = command.replace("rappor", f"{sys.executable} -m rappor_cli", 1)
    started = f"{program} --port {port} > served.log 2>&1 & server=$!\n"
    shell.run(started + READY.replace("PORT", port) + "kill -INT $server\nwait $server")


@pytest.mark.long
@pytest.mark.parametrize("page", ["operations.md", "service.md"])
def test_the_commands_of_a_page_run(page: str, shell: Shell, tmp_path: Path) -> None:
    shell.run("rappor metrics push metrics.toml --database sqlite:///rappor.sqlite")
    shell.run("cp rappor.sqlite collector.sqlite")
    commands = lines(page)
    assert commands
    ids: list[str] = []
    for line in commands:
        shell.run(NEEDS.get(line, "true"))
        command = line.replace("/etc/rappor", str(tmp_path)).replace("=...", "=x")
        if ids:
            command = command.replace("0123456789abcdef", ids[-1])
        if SERVES.match(command):
            serve(shell, command)
        else:
            ids += re.findall(r"^([0-9a-f]{16})\b", shell.run(command), re.M)
