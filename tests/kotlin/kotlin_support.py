"""The Kotlin client as programs: the box that answers commands, and a device that can be killed."""

import json
import re
import shutil
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "kotlin"
STDLIB = ROOT / "client_kotlin/node_modules/kotlin-compiler/lib/kotlin-stdlib.jar"
COMPILER = STDLIB.with_name("kotlin-compiler.jar")
QUICK_START = ("-XX:TieredStopAtLevel=1", "-XX:ReservedCodeCacheSize=256m", "-Xshare:auto")


def missing() -> str:
    """Why the Kotlin client cannot be tested here, or ""."""
    if shutil.which("java") is None:
        return "Java 17 is not installed"
    said = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
    version = re.search(r'"(\d+)', said)
    if version is None or int(version[1]) < 17:
        return "Java 17 is not installed"
    return "" if (BUILD / "digest").exists() else "client_kotlin is not built: make kotlin-built"


with_kotlin = pytest.mark.skipif(bool(missing()), reason=missing() or "Kotlin is there")


def command(main: str, build: Path = BUILD) -> list[str]:
    """Return the words that start a program of the tests' class path."""
    path = f"{build / 'classes'}:{build / 'tests'}:{STDLIB}"
    return ["java", *QUICK_START, f"-Drappor.root={ROOT}", "-cp", path, f"rappor.telemetry.{main}"]


def ask(commands: Iterable[dict[str, Any]]) -> list[dict[str, Any]]:
    """Answers of the box, in one JVM."""
    text = "".join(json.dumps(one) + "\n" for one in commands)
    done = subprocess.run(command("BoxKt"), input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def build_with(tree: Path, fault: dict[str, str]) -> Path:
    """Build a copy of the client with a fault (`faults.toml`) in it; return the folder."""
    client = tree / "client_kotlin"
    shutil.copytree(ROOT / "client_kotlin", client, ignore=shutil.ignore_patterns("node_modules"))
    (client / "node_modules").symlink_to(ROOT / "client_kotlin" / "node_modules")
    shutil.copy(ROOT / "LICENSE", tree)
    for name in ("kotlin_desktop", "kotlin_android"):
        shutil.copytree(ROOT / "examples" / name, tree / "examples" / name)
    source = client / "src" / fault["file"]
    text = source.read_text()
    assert text.count(fault["old"]) == 1, fault
    source.write_text(text.replace(fault["old"], fault["new"]))
    words = ["java", *QUICK_START, "-cp", COMPILER, "scripts/Build.java", tree / "build"]
    subprocess.run(words, cwd=client, check=True)
    return tree / "build"
