"""The walks of docs/architecture.md that a run is held to: which function calls which, in order."""

from __future__ import annotations

import ast
import re
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property
from importlib import import_module
from pathlib import Path
from types import FrameType

import pytest

from client_sdk import Client
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metrics_file import load_metrics
from rappor_core.wire.binary import encode_binary
from rappor_core.wire.json import encode_json
from rappor_core.wire.report import BINARY_CONTENT_TYPE, JSON_CONTENT_TYPE, Batch, make_batch
from tests.architecture.test_walk import section
from tests.collector.support import Clock, make_metric, running_server

ROOT = Path(__file__).parents[2]
OURS = tuple(f"{ROOT / package}/" for package in ("client_sdk", "collector", "rappor_core"))
METRICS = """
[metrics.theme]
kind = "category"
description = "Colours of the app"
owner = "ui@example.org"
expires = 2099-06-30
categories = ["dark", "light"]
prob_f = 0.5
prob_p = 0.35
prob_q = 0.65
max_memoized_values = 2
"""

Call = tuple[str, str]  # of a function: the one of ours that called it, and itself


def name_of(frame: FrameType) -> str:
    """Module and function of a frame."""
    module = Path(frame.f_code.co_filename).relative_to(ROOT).with_suffix("")
    return f"{'.'.join(module.parts)}.{frame.f_code.co_name}"


@contextmanager
def traced() -> Iterator[Callable[[], list[Call]]]:
    """Calls of our functions, in this thread and in those that start meanwhile."""
    calls: list[Call] = []

    def see(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_filename.startswith(OURS):
            above = frame.f_back
            while above and not above.f_code.co_filename.startswith(OURS):
                above = above.f_back
            calls.append((name_of(above) if above else "", name_of(frame)))

    before = sys.getprofile()
    threading.setprofile(see)
    sys.setprofile(see)
    try:
        yield lambda: list(calls)
    finally:
        sys.setprofile(before)
        threading.setprofile(None)  # type: ignore[arg-type]


def module(name: str) -> str:
    return name.rpartition(".")[0]


def is_attribute(name: str) -> bool:
    """Whether it is read as a property of an object, and called by nobody."""
    kinds = (property, cached_property)
    classes = [one for one in vars(import_module(module(name))).values() if isinstance(one, type)]
    return any(isinstance(vars(one).get(name.rpartition(".")[2]), kinds) for one in classes)


def follow(title: str, calls: list[Call], most: int) -> None:
    """The functions of the page are called in its order; none is called from a later module."""
    walk = re.findall(r"^\d+\. `([\w.]+)`", section(title), re.MULTILINE)
    assert len(walk) <= most
    called = [name for _, name in calls]
    assert sorted(walk, key=called.index) == walk
    place = {module(name): number for number, name in enumerate(walk)}
    back = [
        (caller, name)
        for caller, name in calls
        if place.get(module(caller), -1) > place.get(module(name), len(walk))
        and not is_attribute(name)
    ]
    assert back == []


@pytest.mark.parametrize(
    ("encode", "kind"), [(encode_json, JSON_CONTENT_TYPE), (encode_binary, BINARY_CONTENT_TYPE)]
)
def test_a_batch_from_the_route_to_the_counters(
    encode: Callable[[Batch], bytes], kind: str, tmp_path: Path
) -> None:
    metric = make_metric()
    database = f"sqlite:///{tmp_path}/c.db"
    with traced() as calls, running_server([metric], Clock(), database=database) as server:
        made = [server.sender.reports(metric, 20) for _ in range(2)]
        assert server.post_body(encode(make_batch(bytes(16), made[0])), **{"content-type": kind})
        body = encode(make_batch(b"\1" * 16, made[1]))
        before = len(calls())
        assert server.post_body(body, **{"content-type": kind}).status_code == 200
        seen = calls()[before:]
    follow("## From a batch to the counters", seen, 6)
    entered = [call for call in seen if is_wire(call[1]) and not is_wire(call[0])]
    assert len(entered) == 1, "a batch is parsed once"


def is_wire(name: str) -> bool:
    return name.startswith("rappor_core.wire.")


def test_a_value_from_record_to_the_queue(tmp_path: Path) -> None:
    metrics = parse_metrics(METRICS)
    choices = {"state_dir": tmp_path, "collector": "http://127.0.0.1:1", "consent": True}
    with Client.open(metrics, **choices) as client, traced() as calls:  # type: ignore[arg-type]
        assert client.record("theme", "dark")
        seen = calls()
    follow("## From a value to the queue", seen, 6)


def test_a_metric_from_its_file(tmp_path: Path) -> None:
    path = tmp_path / "metrics.toml"
    path.write_text(METRICS)
    with traced() as calls:
        load_metrics(path)
        seen = calls()
    follow("## From metrics.toml to a Metric", seen, 5)


def test_no_module_of_metrics_imports_its_importer() -> None:
    """Imports in functions count as well; those for type checkers alone do not."""
    folder = ROOT / "rappor_core" / "metrics"
    asks = {f"rappor_core.metrics.{path.stem}": imports_of(path) for path in folder.glob("*.py")}
    while free := [name for name, asked in asks.items() if not asked & asks.keys()]:
        for name in free:
            del asks[name]
    assert asks == {}


def imports_of(path: Path) -> set[str]:
    """Modules that it imports when it runs: where the name is of a package, its module, too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING":
            node.body = []
    found = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    return {
        f"{node.module}{of}" for node in found for of in ("", *(f".{n.name}" for n in node.names))
    }
