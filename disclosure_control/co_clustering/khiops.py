"""Khiops as another engine: in an environment of its own, since it needs another scikit-learn.

`set_up` makes the environment, `co_cluster_by_khiops` runs `khiops_program.py` in it, as a process.
Its groups are taken, and the dendrogram above them is ours. The `bin` of the environment must be on
the PATH of that process: Khiops looks for its programs there.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from disclosure_control.co_clustering.engine import from_partition
from disclosure_control.co_clustering.grid import CoClustering
from disclosure_control.co_clustering.merges import Partition
from disclosure_control.co_clustering.recoding import Recoded
from disclosure_control.errors import EngineError
from disclosure_control.typing import Integers
from rappor_core.failures import failure_reason

PACKAGE = "khiops>=11.0.1,<12"
PIP_OPTIONS = ("--disable-pip-version-check",)
PROGRAM = Path(__file__).with_name("khiops_program.py")
_SAID = 300  # characters of what a process said


def default_folder(environ: Mapping[str, str]) -> Path:
    """RAPPOR_KHIOPS, or a folder among the data of the user."""
    if environ.get("RAPPOR_KHIOPS"):
        return Path(environ["RAPPOR_KHIOPS"])
    data = environ.get("XDG_DATA_HOME") or str(Path.home() / ".local" / "share")
    return Path(data) / "rappor-telemetry" / "khiops"


def set_up(folder: Path, package: str = PACKAGE) -> str:
    """Make a virtual environment in a folder, and install Khiops there with its pip.

    Returns: the version of Khiops. About 400 MB.
    Raises: EngineError where the folder holds something else, or the package index of this
        machine does not serve Khiops.
    """
    if folder.exists() and not (folder / "pyvenv.cfg").is_file():
        raise EngineError(f"{folder} is there, and is no virtual environment")
    try:
        venv.create(folder, with_pip=True)
    except (OSError, subprocess.CalledProcessError) as error:
        raise EngineError(f"{folder}: no environment could be made: {error}") from error
    told = _run(folder, ["-m", "pip", "install", *PIP_OPTIONS, package])
    if told.returncode:
        raise EngineError(
            f"the package index of this machine does not serve {package}: {_last(told)}. The "
            "engine of this package needs nothing more"
        )
    found = _run(folder, ["-c", "import khiops; print(khiops.__version__)"])
    if found.returncode:
        raise EngineError(f"Khiops was installed in {folder}, and cannot be used: {_last(found)}")
    return found.stdout.strip()


def co_cluster_by_khiops(
    recoded: Recoded, folder: Path, timeout: float | None = None
) -> CoClustering:
    """The groups that Khiops finds, with the dendrogram above them.

    Args:
        recoded: the pairs. Their numbers, not their labels, are written to a temporary folder.
        folder: the environment that `set_up` made. timeout: seconds; for ever if None.

    Raises:
        EngineError: no such environment; Khiops fails, takes longer, or leaves something out.
    """
    if not _python(folder).exists():
        raise EngineError(f"{folder} has no Khiops: `rappor release setup-khiops` installs it")
    with tempfile.TemporaryDirectory() as name:
        work = Path(name)
        _write_pairs(recoded, work / "pairs.txt")
        try:
            told = _run(folder, [str(PROGRAM), str(work)], timeout)
        except subprocess.TimeoutExpired:
            raise EngineError(f"Khiops takes longer than {timeout:g} s") from None
        if told.returncode:
            raise EngineError(f"Khiops failed: {_last(told)}")
        groups = _read_groups(work / "groups.json")
    rows = _numbers(groups, "row", recoded.num_rows)
    return from_partition(recoded, Partition(rows, _numbers(groups, "part", recoded.num_parts)))


def _write_pairs(recoded: Recoded, file: Path) -> None:
    rows = np.repeat(np.arange(recoded.num_rows), recoded.codes.shape[1])
    pairs = np.column_stack([rows, recoded.codes.ravel()])
    np.savetxt(file, pairs, fmt="%d", delimiter="\t", header="row\tpart", comments="")


def _read_groups(file: Path) -> Mapping[str, Any]:
    try:
        groups = json.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise EngineError(f"Khiops gave no groups: {failure_reason(error)}") from error
    return groups if isinstance(groups, dict) else {}


def _numbers(groups: Mapping[str, Any], axis: str, length: int) -> Integers:
    """The group of each value. Raises EngineError unless each is in one group."""
    members: list[list[int]] = groups.get(axis, [])
    found = np.repeat(np.arange(len(members)), [len(group) for group in members])
    values = np.array([value for group in members for value in group], dtype=np.int64)
    if sorted(values.tolist()) != list(range(length)):
        raise EngineError(f"Khiops has {len(values)} values of {length} in its groups of {axis}s")
    order: Integers = found[np.argsort(values)]
    return order


def _run(
    folder: Path, arguments: Sequence[str], timeout: float | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the environment's Python, apart from our modules and settings."""
    python = _python(folder)
    path = os.pathsep.join([str(python.parent), os.environ.get("PATH", os.defpath)])
    return subprocess.run(  # noqa: S603  the program is ours, the environment the user's
        [str(python), "-I", *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=timeout,
        env={**os.environ, "PATH": path},
    )


def _python(folder: Path) -> Path:
    names = ("Scripts", "python.exe") if sys.platform == "win32" else ("bin", "python")
    return folder.absolute().joinpath(*names)


def _last(told: subprocess.CompletedProcess[str]) -> str:
    """The last line that a process said."""
    lines = (told.stderr or told.stdout).strip().splitlines() or ["it said nothing"]
    return lines[-1][:_SAID]
