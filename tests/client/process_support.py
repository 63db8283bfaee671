"""A program in a separate process, for what must not happen to the process of the tests."""

import os
import subprocess
import sys
from pathlib import Path


def output_of(program: str, folder: Path, metrics: str, *arguments: str) -> list[str]:
    """Lines that a program prints, given a file of metrics, the state's folder and arguments."""
    (folder / "metrics.toml").write_text(metrics)
    command = [sys.executable, "-c", program, folder / "metrics.toml", folder / "state", *arguments]
    path = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(command, env=path, capture_output=True, text=True, check=True)
    return done.stdout.splitlines()
