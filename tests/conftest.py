"""Settings of all tests: property tests draw the same examples at each run, and databases
cost little (`fast_databases`). A test has a budget of processor time (`BUDGET`).

`RAPPOR_FUZZ=1 pytest` draws fresh ones, to look for what the fixed ones missed. Libraries take one
thread each: several test processes share the cores, and threads that wait for one another spin.
"""

import os
import sys
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any
from zlib import crc32

import pytest
from hypothesis import settings

from tests.open_databases import watch

for library in ("OMP", "OPENBLAS", "NUMBA"):
    os.environ.setdefault(f"{library}_NUM_THREADS", "1")  # read when the library is imported

FUZZ = bool(os.environ.get("RAPPOR_FUZZ"))
settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.register_profile("fuzz", deadline=None, max_examples=1000)
settings.load_profile("fuzz" if FUZZ else "repeatable")


watch()


def pytest_addoption(parser: pytest.Parser) -> None:
    """A third of the suite by turns, as CI runs the long tests: `--third 0`, 1 or 2."""
    parser.addoption("--third", type=int, choices=(0, 1, 2), help="run a third of the files")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the files of the other thirds, chosen by their names."""
    third = config.getoption("--third")
    if third is not None:
        chosen = {item for item in items if crc32(item.path.name.encode()) % 3 == third}
        config.hook.pytest_deselected(items=[item for item in items if item not in chosen])
        items[:] = [item for item in items if item in chosen]


BUDGET = 10.0  # seconds of processor: numba compiles for some 5 in a fresh checkout
WHOLE_PROGRAMS = (  # a life or a crash of several of them
    "attacks/", "end_to_end/", "examples/", "public_cases/",
    "collector/test_commands.py", "collector/test_crash.py",
)  # fmt: skip


def spent() -> float:
    """Processor time of this process and of its children that have ended."""
    return sum(os.times()[:4])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Iterator[None]:
    """Fail a test over its budget, unless it is long or the first to load and compile a library."""
    before, loaded = spent(), len(sys.modules)
    yield
    took, path = spent() - before, item.path.relative_to(Path(__file__).parent).as_posix()
    free = "long" in item.keywords or path.startswith(WHOLE_PROGRAMS) or FUZZ
    if took > BUDGET and not free and len(sys.modules) - loaded < 20:
        pytest.fail(
            f"it took {took:.1f} s of processor, of {BUDGET}: take a smaller case, or mark it long "
            "and keep a cheap test of its claim (CONTRIBUTING.md)",
            pytrace=False,
        )


@pytest.fixture(scope="session", autouse=True)
def _fast_databases() -> None:
    """Where tests that were collected make databases, they make them fast."""
    if "rappor_server.schema" in sys.modules:
        from tests.fast_databases import make_fast

        make_fast()


@pytest.fixture(scope="session", autouse=True)
def _kept_certificates() -> None:
    """Certificates are read once a process (.03 s): clients of plain HTTP never look at them."""
    transports = sys.modules.get("httpx._transports.default")
    if transports is not None:
        cached = lru_cache(maxsize=64)(transports.create_ssl_context)
        transports.create_ssl_context = cached  # type: ignore[attr-defined]


@pytest.fixture(scope="session", autouse=True)
def _commands_once() -> None:
    """The click command of a name is made once a process (.02 s)."""
    loaded: Any = sys.modules.get("rappor_cli.commands")
    if loaded is not None:
        loaded._as_command = lru_cache(maxsize=None)(loaded._as_command)


@pytest.fixture(autouse=True)
def _patient_clients(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A device waits 2 s for its state, not 50 ms; but where that wait is the subject."""
    state_file = sys.modules.get("client_sdk.storage.state_file")
    if state_file is not None and not request.path.name.startswith(("test_locks", "test_overflow")):
        monkeypatch.setattr(state_file, "PATIENCE", 2.0)


@pytest.fixture(autouse=True)
def _no_safe_path() -> Iterator[None]:
    """A service that a test starts in this process sets it for its own child processes."""
    yield
    os.environ.pop("PYTHONSAFEPATH", None)


@pytest.fixture
def databases_as_served(monkeypatch: pytest.MonkeyPatch) -> None:
    """This test makes databases as the programs do."""
    from tests.fast_databases import make_as_served

    make_as_served(monkeypatch)
