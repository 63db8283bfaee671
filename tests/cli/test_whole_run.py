"""`make whole` keeps what passed in one state of the code, and runs what did not."""

import importlib.util
import shutil
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

pytestmark = pytest.mark.skipif(not shutil.which("git"), reason="git is not installed")
SCRIPT = Path(__file__).parents[2] / "benchmarks" / "_whole.py"


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", *who, *words], cwd=folder, check=True, capture_output=True)


def commit(folder: Path, name: str) -> None:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(str(len(list(folder.rglob("*")))))
    git(folder, "add", name)
    git(folder, "commit", "-qm", name)


@pytest.fixture
def whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The script, in a repository of its own with three steps that note that they ran."""
    found = importlib.util.spec_from_file_location("whole", SCRIPT)
    assert found is not None
    assert found.loader is not None
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    git(tmp_path, "init", "-q")
    commit(tmp_path, "code.py")
    ran = "echo {} >> .git/ran; exit {}"
    steps = {name: ("sh", "-c", ran.format(name, code)) for name, code in RESULTS.items()}
    monkeypatch.setattr(module, "ROOT", tmp_path)
    monkeypatch.setattr(module, "FOLDER", tmp_path / "build")
    monkeypatch.setattr(module, "RECORDS", tmp_path / "steps.jsonl")
    monkeypatch.setattr(module, "STEPS", steps)
    return module


RESULTS = {"first": 0, "broken": 3, "last": 0}


def run(module: ModuleType, *words: str) -> tuple[int, list[str]]:
    """Exit code, and which steps ran."""
    ran = module.ROOT / ".git" / "ran"
    ran.write_text("")
    return module.main(words), ran.read_text().split()


def test_a_failed_step_runs_again_and_no_other(whole: ModuleType) -> None:
    assert run(whole) == (1, ["first", "broken", "last"])
    assert run(whole) == (1, ["broken"])
    assert run(whole, "first") == (0, ["first"])
    assert len(whole.RECORDS.read_text().splitlines()) == 3
    commit(whole.ROOT, "code.py")
    assert run(whole, "first") == (0, ["first"])
    assert len(whole.RECORDS.read_text().splitlines()) == 1  # nothing is kept of other code


def test_figures_keep_what_passed_and_code_does_not(whole: ModuleType) -> None:
    run(whole)
    commit(whole.ROOT, "docs/growth.md")
    assert run(whole) == (1, ["broken"])
    commit(whole.ROOT, "docs/claims.md")
    assert run(whole) == (1, ["first", "broken", "last"])
    commit(whole.ROOT, "other.py")
    assert run(whole) == (1, ["first", "broken", "last"])


def test_the_list_says_what_passed(whole: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    run(whole)
    capsys.readouterr()
    assert run(whole, "--list") == (0, [])
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == list(RESULTS)
    assert "passed, 0 min 0" in lines[0]
    assert "failed (3), 0 min 0" in lines[1]
    commit(whole.ROOT, "code.py")
    assert run(whole, "--list") == (0, [])
    assert capsys.readouterr().out.count("not run in this state of the code") == 3


def test_uncommitted_code_and_unknown_steps_are_refused(
    whole: ModuleType, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run(whole, "frist")
    assert "no such step: frist; there are first, broken, last" in capsys.readouterr().err
    (whole.ROOT / "code.py").write_text("changed")
    with pytest.raises(SystemExit):
        run(whole)
    assert "commit first, or undo: code.py" in capsys.readouterr().err
