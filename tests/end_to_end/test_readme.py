"""README to the letter: the operator's and the analyst's commands on a live collector."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from client_sdk import Encoder, Transport, load_metrics, new_secret
from client_sdk.testing import FixedRandomness
from rappor_core.wire.report import make_batch
from tests.free_ports import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
DEVICES = 3_000  # about 190 in each cohort of README's metric, of which each needs 100
START_SECONDS = 60


def shell_blocks(section: str) -> str:
    body = re.search(rf"^## {section}\n(.*?)^## ", README, re.M | re.S)
    assert body
    return "\n".join(re.findall(r"^```sh\n(.*?)^```", body[1], re.M | re.S))


class Shell:
    """One bash that runs README's lines with `rappor` as in an installation."""

    def __init__(self, folder: Path, port: int) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAPPOR_")}
        self._port = port
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(ROOT)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self.run(f'rappor() {{ "{sys.executable}" -m rappor_cli "$@"; }}')

    def run(self, lines: str) -> str:
        """Run lines; return what they printed. Fails on the first line that fails."""
        assert self._bash.stdin
        assert self._bash.stdout
        lines = lines.replace("8000", str(self._port)).replace(" &\n", " > serve.log 2>&1 &\n")
        self._bash.stdin.write(f"set -e\n{lines}\nset +e\necho END-OF-LINES\n")
        self._bash.stdin.flush()
        printed = []
        for line in self._bash.stdout:
            if line == "END-OF-LINES\n":
                return "".join(printed)
            printed.append(line)
        raise AssertionError(f"a command failed after: {''.join(printed)}")

    def close(self) -> None:
        os.killpg(self._bash.pid, 15)
        self._bash.communicate(timeout=30)


@pytest.fixture
def shell(tmp_path: Path, doc_files: None) -> Iterator[Shell]:
    bash = Shell(tmp_path, free_port())
    yield bash
    bash.close()


def await_collector(url: str) -> None:

    def answers() -> bool:
        with suppress(URLError, ConnectionError), urlopen(f"{url}/healthz", timeout=5) as answer:
            return bool(answer.status == 200)
        return False

    until(answers, START_SECONDS, every=0.1)


def send_reports(url: str, key: str, folder: Path) -> None:
    metrics = load_metrics(folder / "metrics.toml").metrics
    source, day = FixedRandomness(5), datetime.now(UTC).date()
    reports = [
        Encoder(metrics, new_secret(source), source).encode("homepage", "https://a.example/", day)
        for _ in range(DEVICES)
    ]
    with Transport(url, key) as transport:
        answer = transport.send(make_batch(source(16), reports))
    assert all(result.accepted for result in answer.results)


def test_operator_and_analyst_get_there_by_the_readme_alone(shell: Shell, tmp_path: Path) -> None:
    url = f"http://127.0.0.1:{shell._port}"
    serve, close = shell_blocks("Operator").split("rappor close")
    keys = shell.run(serve).split()
    await_collector(url)
    report_key = next(word for word in keys if word.startswith("rk_"))
    send_reports(url, report_key, tmp_path)
    assert "closed through" in shell.run("rappor close" + close)
    decode, *rest = shell_blocks("Analyst").split("rappor decode --params")
    assert rest, "README lost its example of google/rappor's files"
    shell.run(decode)
    assert (tmp_path / "out" / "report.html").exists()
    assert '"homepage"' in (tmp_path / "homepage.json").read_text()
