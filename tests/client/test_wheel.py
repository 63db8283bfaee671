"""What a device loads, and the wheel that holds it, installed without network."""

import resource
import statistics
import subprocess
import sys
import zipfile
from pathlib import Path

import cryptography
import mmh3
import pytest

from client_sdk.testing import MemoryCollector
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.file import parse_metrics
from rappor_core.ohttp.encapsulation import KeyConfig, encode_keys
from tests.metric_texts import declaration

ROOT = Path(__file__).parents[2]
AREA = {"grid": "quadkey", "box": [40.0, -9.0, 41.0, -8.0]}
HOME = declaration(
    "home", "location", **AREA, levels=[10], slots=["night 22-6", "work 9-17 weekdays"],
    mode="memo", num_bits=64, num_cohorts=8, epsilon_infinity=4.0, epsilon_one=1.0,
    max_memoized_values=5,
)  # fmt: skip
FLOW = declaration(
    "commute", "flow", **AREA, levels=[8, 10], bands_km=[20, 60], mode="once", epsilon=2.0,
    num_symbols=8, num_cohorts=10, **{"from": "night 22-6", "to": "work 9-17"},
)  # fmt: skip
NUMBERS = declaration(
    "crashes", "number", unit="crashes", of_period="sum", edges=[1, 2, 5], none="zero",
    mode="memo", epsilon_infinity=2.0, epsilon_one=1.0,
)  # fmt: skip
SITE = declaration(
    "site", "discover", epsilon_infinity=4.0, max_reports=1, max_memoized_values=2,
    fallback="other",
)  # fmt: skip
PAIR = declaration(
    "theme_crashed", "pair", of=["theme", "crashed"],
    values={"theme": ["light", "dark", "system"], "crashed": [False, True]}, mechanism="l-osue",
    epsilon_infinity=2.0, epsilon_one=1.0, max_memoized_values=4, fallback="system | false",
)  # fmt: skip
USE = """
import datetime, sys, tempfile, time
from client_sdk import Client, Delivery, load_metrics
from client_sdk.storage import state_file
state_file.PATIENCE = 2.0  # as in conftest.py: this must pass on a machine that is busy, too
metrics, url = load_metrics(sys.argv[1]), sys.argv[2]
with tempfile.TemporaryDirectory() as folder:
    now = [time.time() - 86_400]
    choices = dict(state_dir=folder, collector=url, consent=True, clock=lambda: now[0])
    with Client.open(metrics, **choices, delivery=Delivery(mean_delay=0)) as client:
        assert client.record("homepage", "a")
        assert client.record("theme", "dark")
        assert client.record("crashed", False)
        assert client.record("site", "example.org")
        for days in (0, 1):
            now[0] += 86_400 * days
            at = datetime.datetime.fromtimestamp(now[0]).astimezone()
            assert client.record_location("home", 40.5, -8.5, at)
            assert client.record_location("commute", 40.5, -8.5, at)
            assert client.add("crashes")
        assert client.flush(20), client.last_error
        assert client.inspect()["metrics"]
        client.set_consent(False)
ours = {"client_sdk", "rappor_core", "mmh3"}
loaded = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in loaded - ours if not name.startswith("__")))
print(sorted(name for name in sys.modules if name in UNREAD))
"""
PIP = [sys.executable, "-m", "pip", "--quiet", "--disable-pip-version-check"]
EVERY_KIND = HOME + FLOW + NUMBERS + SITE + PAIR
UNREAD = {"tomllib", "rappor_core.metrics.file"}
USE = f"UNREAD = {UNREAD!r}" + USE
COUNTED = ("homepage", "theme", "crashed", "site", "commute", "crashes")
PLACES = ("home/night/10", "home/work/10")


def put_mmh3_in(folder: Path) -> str:
    """A place for modules with mmh3 in it, whether that is a package or a single file."""
    origin = Path(str(mmh3.__file__)).parent
    installed = origin.parent if origin.name == "mmh3" else origin
    folder.mkdir(exist_ok=True)
    for path in installed.glob("mmh3*"):
        (folder / path.name).symlink_to(path)
    return str(folder)


def run(program: str, path: list[str], *arguments: str) -> str:
    """In a fresh, isolated interpreter that sees `path` only."""
    prelude = f"import sys; sys.path[:0] = {path!r}\n"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", prelude + program, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built with the backend of this environment, so that pip downloads nothing."""
    folder = tmp_path_factory.mktemp("wheel")
    build = [*PIP, "wheel", "--no-deps", "--no-build-isolation", "-w", str(folder)]
    subprocess.run([*build, str(ROOT / "packaging" / "client")], check=True)
    (built,) = folder.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    """The path with the wheel, installed by its name without network, and mmh3."""
    site = tmp_path_factory.mktemp("site")
    install = [*PIP, "install", "--no-deps", "--no-index", "--find-links", str(wheel.parent)]
    subprocess.run([*install, "--target", str(site), "rappor-telemetry-client"], check=True)
    return [put_mmh3_in(site)]


def test_importing_and_opening_load_no_network(tmp_path, metrics_text) -> None:
    metrics = tmp_path / "metrics.toml"
    metrics.write_text(metrics_text)
    program = """
from client_sdk import Client
client = Client.open(sys.argv[1], state_dir=sys.argv[2], collector="http://x", consent=True)
assert client.record("theme", "dark")
print(sorted({"http.client", "socket", "ssl", "email", "logging", "asyncio"} & set(sys.modules)))
"""
    path = [str(ROOT), put_mmh3_in(tmp_path / "site")]
    assert run(program, path, str(metrics), str(tmp_path / "state")) == "[]"


def test_the_wheel_is_plain_sources_of_two_packages(wheel) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if ".dist-info/" not in name}
        for name in names - {"client_sdk/LICENSE"}:
            assert archive.read(name) == (ROOT / name).read_bytes(), name
    sources = {
        path.relative_to(ROOT).as_posix()
        for package in ("client_sdk", "rappor_core")
        for path in (ROOT / package).rglob("*.py")
    } - {"rappor_core/tasks.py"}  # devices run no engines
    assert {name for name in names if name.endswith(".py")} == sources
    others = {name for name in names - sources if not name.endswith("/py.typed")}
    documents = {"client_sdk/LICENSE", "client_sdk/DESIGN.md"}
    assert others == documents | {"rappor_core/codes/tables/domains.json"}


@pytest.mark.parametrize("form", ["toml", "json"])
def test_the_wheel_serves_a_device_of_every_kind(installed, tmp_path, metrics_text, form) -> None:
    metrics, path = parse_metrics(metrics_text + EVERY_KIND), tmp_path / f"metrics.{form}"
    path.write_text(metrics_text + EVERY_KIND if form == "toml" else compiled_text(metrics))
    with MemoryCollector(metrics.metrics) as collector:
        foreign, parsers = run(USE, installed, str(path), collector.url).splitlines()
        assert collector.counted() == dict.fromkeys((*COUNTED, *PLACES), 1)
    assert foreign == "[]"
    assert (parsers == "[]") == (form == "json")


BEHIND_A_RELAY = """
from client_sdk import Client, Delivery, Relay
relay = Relay("https://relay.example.net/ohttp", bytes.fromhex(sys.argv[2]))
choices = dict(collector="https://x.example", consent=True, state_dir=sys.argv[3], relay=relay)
with Client.open(sys.argv[1], **choices) as client:
    print(client.record("theme", "dark"), relay)
"""


def test_the_relay_needs_its_extra_alone(installed, tmp_path, metrics_text) -> None:
    (tmp_path / "metrics.toml").write_text(metrics_text)
    keys = encode_keys([KeyConfig(5, bytes(32))]).hex()
    given = str(tmp_path / "metrics.toml"), keys, str(tmp_path / "state")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run(BEHIND_A_RELAY, installed, *given)
    assert "a relay needs the library cryptography" in raised.value.stderr.splitlines()[-1]
    libraries, extra = Path(cryptography.__file__).parents[1], tmp_path / "extra"
    extra.mkdir()
    for name in ("cryptography", *(file.name for file in libraries.glob("*cffi*"))):
        (extra / name).symlink_to(libraries / name)
    said = run(BEHIND_A_RELAY, [*installed, str(extra)], *given)
    assert said == "True Relay('https://relay.example.net/ohttp', key 5)"


OPENED = """
from client_sdk import Client
Client.open(sys.argv[1], state_dir=sys.argv[2], collector="http://127.0.0.1:9", consent=True)
"""
ROUNDS = 7  # the first of which compiles


@pytest.mark.long
def test_import_and_open_cost_less_than_opentelemetry(installed, tmp_path, metrics_text) -> None:
    (tmp_path / "metrics.toml").write_text(metrics_text)
    site = str(Path(sys.modules["pytest"].__file__ or "").parents[1])
    programs = {
        "import": ("import client_sdk, mmh3", installed),
        "open": (OPENED, installed),
        "rival": ("import opentelemetry.sdk.trace", [site]),
    }
    times: dict[str, list[float]] = {name: [] for name in programs}
    for _ in range(ROUNDS):
        for name, (program, path) in programs.items():
            before = ended_seconds()
            run(program, path, str(tmp_path / "metrics.toml"), str(tmp_path / "state"))
            times[name].append(ended_seconds() - before)
    medians = {name: statistics.median(found[1:]) for name, found in times.items()}
    assert medians["import"] < medians["open"] < medians["rival"], medians


def ended_seconds() -> float:
    """Processor seconds of this process's children that have ended."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
