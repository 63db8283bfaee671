"""README, the tutorial and the operators' pages to the letter: their commands run as written."""

import os
import re
import shutil
import socket
import subprocess
import sys
import tomllib
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from tests.free_ports import free_port

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BOXES = str.maketrans(dict.fromkeys("┏━┳┓┃┡╇┩│└─┴┘╀", " "))
NUMBERS = re.compile(r"\b[0-9a-f]{16,}\b|\d[\d.,e+-]*")


class Shell:
    """One bash that runs README's lines with `rappor` as in an installation."""

    def __init__(self, folder: Path, port: int, source: Path = ROOT) -> None:
        environment = {k: v for k, v in os.environ.items() if not k.startswith("RAPPOR_")}
        self._port = port
        self._bash = subprocess.Popen(
            ["bash"],
            cwd=folder,
            env=environment | {"PYTHONPATH": str(source), "RAPPOR_PORT": str(port)},
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
        lines = lines.replace("8000", str(self._port))
        lines = re.sub(r" &( +#.*)?\n", " > serve.log 2>&1 &\n", lines)
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


@contextmanager
def default_ports_taken() -> Iterator[None]:
    """The ports that servers take unless another is named belong to somebody else."""
    with ExitStack() as stack:
        for port in (8000, 8100):
            with suppress(OSError):  # it is taken indeed
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
        yield


def commands(text: str) -> list[tuple[str, list[str]]]:
    """Each command of console blocks, with its here-document, and the lines that it prints."""
    found = []
    for block in re.findall(r"^```console\n(.*?)^```", text, re.M | re.S):
        for part in re.split(r"^\$ ", block, flags=re.M)[1:]:
            command, _, printed = part.partition("\n")
            if "<< END" in command:
                inner, _, printed = printed.partition("END\n")
                command = f"{command}\n{inner}END"
            found.append((command, printed.splitlines()))
    return found


def masked(line: str) -> str:
    """A line without boxes, spaces and numbers."""
    return " ".join(NUMBERS.sub("#", line.translate(BOXES)).split())


def agrees(expected: list[str], printed: str) -> bool:
    """Whether what was printed is what the page says; `...` represents any lines."""
    wanted = [masked(line) for line in expected if masked(line)]
    reached = _past_gaps({0}, wanted)  # how many of the wanted lines may be behind us
    for line in filter(None, map(masked, printed.splitlines())):
        here = {i for i in reached if i < len(wanted)}
        stay = {i for i in here if wanted[i] == "..."}
        reached = _past_gaps(stay | {i + 1 for i in here if wanted[i] == line}, wanted)
    return len(wanted) in reached


def _past_gaps(reached: set[int], wanted: list[str]) -> set[int]:
    """With what is reached where a `...` represents no line."""
    return reached | {i + 1 for i in reached if wanted[i : i + 1] == ["..."]}


def test_readmes_first_lines_print_its_output(shell: Shell, tmp_path: Path) -> None:
    toml = re.search(r"^```toml\n(.*?)^```", README, re.M | re.S)
    assert toml
    (tmp_path / "metrics.toml").write_text(toml[1])
    (command, expected), _ = commands(README)
    assert len(toml[1].split("\n\n")[1].splitlines()) + 1 == 10, "ten lines"
    printed = shell.run(command + "\n")
    assert agrees(expected, printed), printed
    assert (tmp_path / "quickstart" / "theme" / "report.html").exists()


@pytest.mark.long
def test_readme_runs_in_a_clone_with_the_default_ports_taken(clone: Path, monkeypatch) -> None:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    text = (clone / "README.md").read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.M | re.S)
    (clone / "metrics.toml").write_text(next(block for kind, block in blocks if kind == "toml"))
    (program,) = (block for kind, block in blocks if kind == "python")
    check, serve = (b for kind, b in blocks if kind == "sh" and b.startswith("rappor "))
    _, (watch, expected) = commands(text)
    port = free_port()
    shell = Shell(clone, port, clone)
    try:
        with default_ports_taken():
            assert "1 metric, 1 finding" in shell.run(check)
            shell.run(serve)
            shell.run(f"until curl -sf http://127.0.0.1:{port}/readyz > ready; do sleep 1; done")
            (clone / "app.py").write_text(program.replace("8000", str(port)))
            shell.run(f"{sys.executable} app.py")
            program = f"timeout -s INT 15 {sys.executable} -m rappor_cli"
            stopped = watch.replace("rappor", program, 1)
            printed = shell.run(f"{stopped} || true")
            assert agrees(expected, printed), printed
    finally:
        shell.close()


@pytest.mark.long
def test_readme_installs_from_a_clone_and_from_wheels(tmp_path: Path) -> None:
    lines = [line.split("#")[0].strip() for line in README.splitlines() if line.startswith("pip ")]
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    named = {one for line in lines for one in re.findall(r"\[(\w+)\]", line)}
    assert named == {"all"} <= set(extras["optional-dependencies"])
    offline = "--quiet --no-deps --no-index --no-build-isolation --disable-pip-version-check"
    pip = f'"{sys.executable}" -m pip'
    for number, line in enumerate(lines):
        site = tmp_path / f"site{number}"
        words = re.sub(r"^pip (\w+)", rf"{pip} \1 {offline}", line)
        words = words.replace(" -w dist", f" -w {tmp_path}/dist").replace(
            "ls dist", f"ls {tmp_path}/dist"
        )
        target = "" if " wheel " in words else f" --target {site}"
        subprocess.run(["bash", "-ec", f"{words}{target}"], cwd=ROOT, check=True)
        if target:
            code = "import rappor_cli.main as cli; print(cli.__file__); cli.main(['--version'])"
            done = subprocess.run(
                [sys.executable, "-c", code], cwd=tmp_path, env={"PYTHONPATH": str(site)},
                capture_output=True, text=True, check=True,
            )  # fmt: skip
            assert done.stdout.startswith(str(site))


TEXT = (Path(__file__).parents[2] / "docs" / "tutorial.md").read_text(encoding="utf-8")
FENCES = re.compile(r"^```(\w+)\n(.*?)^```", re.MULTILINE | re.DOTALL)
FILES = {"[metrics.start_page]": "metrics.toml", "audience": "release.toml", "Encoder": "fleet.py"}
SHARE = re.compile(r"│ (https://\w+\.example/)\s+│\s+([\d.]+) %")


@pytest.fixture
def shell_tutorial(tmp_path: Path, clone: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Shell]:
    monkeypatch.delenv("DO_NOT_TRACK", raising=False)
    with default_ports_taken():
        bash = Shell(tmp_path, free_port(), clone)
        bash.run(f'python() {{ "{sys.executable}" "$@"; }}')
        yield bash
        bash.close()


@pytest.mark.long
@pytest.mark.skipif(shutil.which("curl") is None, reason="no curl")
def test_every_command_prints_what_the_page_says(shell_tutorial: Shell, tmp_path: Path) -> None:
    decoder_port = str(free_port())
    ports = {"8000": str(shell_tutorial._port), "8100": decoder_port}
    for _, text in FENCES.findall(TEXT):
        for mark, name in FILES.items():
            if mark in text:
                (tmp_path / name).write_text(text.replace("8000", ports["8000"]))
    for command, expected in commands(TEXT):
        printed = shell_tutorial.run(command.replace("8100", decoder_port) + "\n")
        assert agrees(expected, printed), f"$ {command}\n{printed}"
        for value, share in SHARE.findall("\n".join(expected)):
            found = dict(SHARE.findall(printed))
            assert float(found[value]) == pytest.approx(float(share), abs=6)
    rows = (tmp_path / "release-1" / "release.csv").read_text()
    assert rows.count("https://") == 3


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
def shell_console_blocks(tmp_path: Path) -> Iterator[Shell]:
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


def serve(shell_console_blocks: Shell, command: str) -> None:
    """Start a server on a free port, wait until it is ready, and end it as an operator does."""
    port = str(free_port())
    program = command.replace("rappor", f"{sys.executable} -m rappor_cli", 1)
    started = f"{program} --port {port} > served.log 2>&1 & server=$!\n"
    shell_console_blocks.run(
        started + READY.replace("PORT", port) + "kill -INT $server\nwait $server"
    )


@pytest.mark.long
@pytest.mark.parametrize("page", ["operations.md", "service.md"])
def test_the_commands_of_a_page_run(page: str, shell_console_blocks: Shell, tmp_path: Path) -> None:
    shell_console_blocks.run("rappor metrics push metrics.toml --database sqlite:///rappor.sqlite")
    shell_console_blocks.run("cp rappor.sqlite collector.sqlite")
    commands = lines(page)
    assert commands
    ids: list[str] = []
    for line in commands:
        shell_console_blocks.run(NEEDS.get(line, "true"))
        command = line.replace("/etc/rappor", str(tmp_path)).replace("=...", "=x")
        if ids:
            command = command.replace("0123456789abcdef", ids[-1])
        if SERVES.match(command):
            serve(shell_console_blocks, command)
        else:
            ids += re.findall(r"^([0-9a-f]{16})\b", shell_console_blocks.run(command), re.M)
