"""Print the tests that were touched, and those of touched modules: `make quick` runs them."""

import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def changed_files() -> list[Path]:
    """Python files that differ from the last commit or are new, from the root of the repository."""
    commands = ("diff --name-only HEAD", "ls-files --others --exclude-standard")
    named = "\n".join(
        subprocess.run(["git", *command.split()], cwd=ROOT, capture_output=True, text=True,  # noqa: S603, S607
                       check=True).stdout for command in commands
    )  # fmt: skip
    return [path for path in map(Path, named.split()) if path.suffix == ".py"]


def tests_of(paths: list[Path]) -> list[Path]:
    """Tests among the paths, and tests that import one of the others."""
    modules = {".".join(path.with_suffix("").parts).removesuffix(".__init__") for path in paths}
    tests = sorted(ROOT.glob("tests/**/test_*.py"))
    return [
        test for test in tests
        if test.relative_to(ROOT) in paths
        or any(f"{module} import " in test.read_text(encoding="utf-8") for module in modules)
    ]  # fmt: skip


if __name__ == "__main__":
    print(*tests_of(changed_files()) or [ROOT / "tests" / "architecture"])
