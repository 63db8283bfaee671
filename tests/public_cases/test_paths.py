"""An app that changes its working directory: a relative path means what it meant when given."""

import os
import shutil
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest

from client_sdk import Delivery
from client_sdk.one_line import folder_of
from client_sdk.session import environment_certificates
from client_sdk.testing import MemoryCollector
from rappor_core.errors import ParameterError
from rappor_core.own_packages import OWN_PACKAGES, foreign_file
from tests.waiting import until

UNSENT = Delivery(mean_delay=86_400.0)


@pytest.fixture
def moved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder to go to, once the client was opened in the one where the test begins."""
    (tmp_path / "home").mkdir()
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "home")
    return tmp_path / "other"


def test_reports_are_delivered_after_a_change_of_directory(
    open_client: Any, collector: MemoryCollector, moved: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """openai-agents-python #5012: a relative path was read again in another directory."""
    client = open_client(state_dir="state", delivery=UNSENT)
    assert client.record("homepage", "a")
    monkeypatch.chdir(moved)
    assert client.record("homepage", "b")
    assert client.flush(20)
    assert collector.counted() == {"homepage": 2}
    assert list(moved.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
def test_a_forked_child_keeps_the_secret(open_client, moved, monkeypatch) -> None:
    client = open_client(state_dir="state", delivery=UNSENT)
    assert client.record("homepage", "a")
    monkeypatch.chdir(moved)
    child = os.fork()
    if child == 0:
        os._exit(0 if client.record("homepage", "a") else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert list(moved.iterdir()) == []
    assert client.inspect()["queued"] == {"homepage": 2}


def test_a_withdrawal_reaches_the_state(open_client, moved, tmp_path, monkeypatch) -> None:
    client = open_client(state_dir="state", delivery=UNSENT)
    assert client.record("homepage", "a")
    secret = client._life.session.state.identity().secret
    monkeypatch.chdir(moved)
    until(lambda: client.set_consent(False))  # a thread that is late has it tried again
    files = (tmp_path / "home" / "state").iterdir()
    assert not any(secret in path.read_bytes() for path in files)


@pytest.mark.parametrize("how", ["renamed", "deleted"])
def test_a_withdrawal_that_finds_no_state_does_not_answer_true(open_client, tmp_path, how) -> None:
    """Renamed, it still holds the secret; nobody but the app can know."""
    client = open_client(delivery=UNSENT)
    assert client.record("homepage", "a")
    if how == "renamed":
        (tmp_path / "state").rename(tmp_path / "elsewhere")
    else:
        shutil.rmtree(tmp_path / "state")
    for _ in range(2):  # an app that was answered False asks again
        assert not client.set_consent(False)
    assert client.status.condition == "no_consent"
    assert f"no longer in its place: {tmp_path / 'state'}" in client.status.sentence
    if how == "renamed":
        (tmp_path / "elsewhere").rename(tmp_path / "state")
        assert client.set_consent(False)


def test_a_relative_variable_of_xdg_is_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG base directory specification 0.8: relative paths are invalid."""
    monkeypatch.setattr(sys, "platform", "linux")
    monkeypatch.setenv("XDG_STATE_HOME", "here")
    assert folder_of("app") == str(Path.home() / ".local/state/app/telemetry")
    monkeypatch.setenv("XDG_STATE_HOME", "/there")
    assert folder_of("app") == "/there/app/telemetry"


def test_certificates_of_the_environment_are_those_of_the_start(
    metrics: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """OpenSSL reads SSL_CERT_FILE when a connection is first made, in the directory of then."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SSL_CERT_FILE", "own.pem")
    monkeypatch.delenv("SSL_CERT_DIR", raising=False)
    assert environment_certificates() == (str(tmp_path / "own.pem"), None)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.parametrize("records", [True, False])
def test_a_moved_state_is_not_replaced_in_silence(open_client, tmp_path, records) -> None:
    """A forked child, or a client that looks again, finds no state and must not draw a secret."""
    client = open_client(delivery=UNSENT, development=False)
    assert client.record("homepage", "a")
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    child = os.fork()
    if child == 0:
        if records:
            client.record("homepage", "a")
        os._exit(0)
    os.waitpid(child, 0)
    assert not (tmp_path / "state" / "state.sqlite").exists()
    assert not client.set_consent(False)
    assert "no longer in its place" in client.status.sentence


def test_another_state_in_the_place_is_not_taken_for_this_one(open_client, tmp_path) -> None:
    client = open_client(delivery=UNSENT)
    assert client.record("homepage", "a")
    (tmp_path / "state").rename(tmp_path / "elsewhere")
    assert open_client(delivery=UNSENT).record("homepage", "a")
    assert not client.set_consent(False)
    assert "no longer in its place" in client.status.sentence


def test_a_deleted_working_directory_is_named(tmp_path, monkeypatch, open_client) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    with pytest.raises(ParameterError, match="state_dir = 'state' is relative"):
        open_client(state_dir="state")


ROOT = Path(__file__).parents[2]
BESIDE = {"client_sdk/__init__.py": "", "client_sdk/api.py": "def hello(): return 1\n"}
OF_THEIR_OWN = "from client_sdk.api import hello\ndef test_a(): assert hello() == 1\n"
IN_OWN_WORDS = "def test_b(rappor): pass\n"


def run(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    alone = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST")}
    return subprocess.run(
        [sys.executable, *words], cwd=folder, env=alone | environment, capture_output=True,
        text=True, check=False,
    )  # fmt: skip


def write(folder: Path, files: dict[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text)


def test_pytest_starts_in_a_repository_with_a_folder_client_sdk(tmp_path: Path) -> None:
    """tinydb #194: a plugin's entry point was in a package that a local folder hides."""
    (plugin,) = entry_points(group="pytest11", name="rappor")
    assert plugin.module == "rappor_telemetry_pytest"  # the installed one, as pytest finds it
    write(tmp_path, BESIDE | {"test_a.py": OF_THEIR_OWN, "test_b.py": IN_OWN_WORDS})
    done = run(tmp_path, "-m", "pytest", "-q")
    assert "1 passed, 1 error" in done.stdout, done.stdout + done.stderr
    assert f"{tmp_path / 'client_sdk' / '__init__.py'} hides the client_sdk" in done.stdout
    assert "rename yours" in done.stdout
    assert "Traceback" not in done.stdout


OTHERS = ("decode", "serve", "archive", "release", "decoder serve")


@pytest.mark.parametrize(
    "command", ["metrics", *(pytest.param(name, marks=pytest.mark.long) for name in OTHERS)]
)
def test_commands_find_our_packages_before_a_users_files(tmp_path: Path, command: str) -> None:
    """frida-gadget #51, virtualenv #2067: a module of the user's on PYTHONPATH hid the tool's."""
    write(
        tmp_path,
        {f"{name}.py": "X = 1\n" for name in OWN_PACKAGES if not name.startswith("rappor_")},
    )
    script = "import sys; sys.argv[0] = 'rappor'; from rappor_cli.__main__ import run; run()"
    done = run(tmp_path, "-c", script, *command.split(), "--help", PYTHONPATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert f"rappor {command}" in done.stdout
    module = run(tmp_path, "-m", "rappor_cli", *command.split(), "--help")
    assert module.returncode == 0, module.stderr


STARTED = """
import multiprocessing, os, sys
from rappor_cli.__main__ import run

def decoder_of_child(pipe):
    import decoder
    pipe.send(decoder.__file__)

if __name__ == "__main__":
    context = multiprocessing.get_context(sys.argv[1])
    if sys.argv[1] == "forkserver":
        from decoder_service.worker.process_limits import PARENT_VARIABLE
        os.environ[PARENT_VARIABLE] = str(os.getpid())
        context.set_forkserver_preload(["decoder_service.worker.forkserver_setup"])
    here, there = context.Pipe()
    context.Process(target=decoder_of_child, args=(there,)).start()
    print(here.recv())
"""


@pytest.mark.parametrize("way", [pytest.param("spawn", marks=pytest.mark.long), "forkserver"])
def test_processes_of_a_command_find_them_too(tmp_path: Path, way: str) -> None:
    """frida-gadget #51, in the processes that a server starts."""
    write(tmp_path, {"decoder.py": "X = 1\n", "started.py": STARTED})
    done = run(tmp_path, "started.py", way)
    assert done.stdout.strip() == str(ROOT / "decoder" / "__init__.py"), done.stderr


def test_no_foreign_file_is_named_where_there_is_none() -> None:
    assert [foreign_file(name) for name in OWN_PACKAGES] == [None] * len(OWN_PACKAGES)
    assert foreign_file("no_such_module") is None
