"""A user's own folders and files that are named like our packages."""

import os
import subprocess
import sys
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from rappor_core.own_packages import OWN_PACKAGES, foreign_file

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
