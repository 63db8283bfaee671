"""The device's part alone can be built as a wheel, and works with nothing but mmh3 beside it."""

from __future__ import annotations

import re
import subprocess
import sys
import tomllib
import zipfile
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any

import cryptography
import mmh3
import pytest

from client_sdk.testing import MemoryCollector
from ohttp.key_config import KeyConfig, encode_keys
from rappor_core.codes.prefix_code import PACKAGED
from rappor_core.metrics.compiled import compiled_text
from rappor_core.metrics.file import parse_metrics

ROOT = Path(__file__).parents[2]
HOME = """
[metrics.home]
kind = "location"
description = "Where devices are at night and at work"
owner = "maps@example.org"
expires = 2099-06-30
grid = "quadkey"
box = [40.0, -9.0, 41.0, -8.0]
levels = [10]
slots = ["night 22-6", "work 9-17 weekdays"]
mode = "memo"
num_bits = 64
num_cohorts = 8
epsilon_infinity = 4.0
epsilon_one = 1.0
max_memoized_values = 5
"""
FLOW = """
[metrics.commute]
kind = "flow"
description = "Usual night cell and usual work cell of a day, once"
owner = "maps@example.org"
expires = 2099-06-30
grid = "quadkey"
box = [40.0, -9.0, 41.0, -8.0]
levels = [8, 10]
from = "night 22-6"
to = "work 9-17"
bands_km = [20, 60]
mode = "once"
epsilon = 2.0
num_symbols = 8
num_cohorts = 10
"""
NUMBERS = """
[metrics.crashes]
kind = "number"
description = "Crashes in a day"
owner = "quality@example.org"
expires = 2099-06-30
unit = "crashes"
of_period = "sum"
edges = [1, 2, 5]
none = "zero"
mode = "memo"
epsilon_infinity = 2.0
epsilon_one = 1.0
"""
LINKED = """
[metrics.slow]
kind = "boolean"
description = "Whether the start was slow"
owner = "quality@example.org"
expires = 2099-06-30
prob_f = 0.5
prob_p = 0.35
prob_q = 0.65

[associations.theme_slow]
description = "Whether dark colours start slowly"
owner = "quality@example.org"
expires = 2099-06-30
of = ["theme", "slow"]
"""
SITE = """
[metrics.site]
kind = "discover"
description = "Site that a device visits most"
owner = "web@example.org"
expires = 2099-06-30
epsilon_infinity = 4.0
max_reports = 1
max_memoized_values = 2
fallback = "other"
"""
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
        assert "site" not in metrics.metrics or client.record("site", "example.org")
        for days in (0, 1):
            now[0] += 86_400 * days
            at = datetime.datetime.fromtimestamp(now[0]).astimezone()
            if "home/night/10" in metrics.metrics:
                assert client.record_location("home", 40.5, -8.5, at)
            if "commute" in metrics.metrics:
                assert client.record_location("commute", 40.5, -8.5, at)
            if "crashes" in metrics.metrics:
                assert client.add("crashes")
        assert client.flush(20), client.last_error
        assert client.inspect()["metrics"]
        client.set_consent(False)
ours = {"client_sdk", "rappor_core", "_rappor_client", "mmh3"}
loaded = {name.partition(".")[0] for name in sys.modules} - set(sys.stdlib_module_names)
print(sorted(name for name in loaded - ours if not name.startswith("__")))
print(sorted(name for name in sys.modules if name in UNREAD))
"""
UNREAD = {"tomllib", "rappor_core.metrics.file", "rappor_core.metrics.tables"}
USE = f"UNREAD = {UNREAD!r}" + USE
COUNTED = {"homepage": 1, "theme": 1, "crashed": 1}
PLACES = {"home/night/10": 1, "home/work/10": 1}
SUMS = {"crashes": 1}
# what is imported only where an app chooses it, and then is of `rappor-telemetry`
NOT_ON_DEVICES = {
    "rappor_core/wire/decode.py",
    "rappor_core/wire/json.py",
    "rappor_core/wire/linked_json.py",
}
REPORTS = """
import json, sys
from client_sdk.randomisation.metric_encoder import MetricEncoder
from rappor_core.metrics.compiled_reading import read_compiled
folder = sys.argv[1]
rows = json.load(open(folder + "/device.json"))["reports"]
good = json.load(open(folder + "/compiled.json"))["good"]["metrics"]["document"]
metrics = read_compiled(json.dumps(good)).metrics
for row in rows:
    random, secret = bytes.fromhex(row["random"]), bytes.fromhex(row["secret"])
    device = MetricEncoder(metrics[row["metric"]], secret, lambda n: random[:n])
    assert device.report_bits(device.value_bits(row["value"])).hex() == row["report_bits"], row
print(len(rows))
"""


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


def use(path: list[str], folder: Path, text: str, form: str) -> list[str]:
    """A device's life with metrics of a text, in a form; the foreign and the needless modules."""
    source, metrics = folder / "metrics.toml", parse_metrics(text)
    source.write_text(text)
    (folder / "metrics.json").write_text(compiled_text(metrics))
    with MemoryCollector(metrics.metrics) as collector:
        said = run(USE, path, str(folder / f"metrics.{form}"), collector.url)
        places = PLACES if "[metrics.home]" in text else {}
        sums = SUMS if "[metrics.crashes]" in text else {}
        sites = {"site": 1} if "[metrics.site]" in text else {}
        flows = {"commute": 1} if "[metrics.commute]" in text else {}
        assert collector.counted() == COUNTED | places | sums | sites | flows
    return said.splitlines()


@pytest.mark.parametrize("form", ["toml", "json"])
def test_a_device_at_work_loads_only_mmh3(tmp_path: Path, metrics_text: str, form: str) -> None:
    """One metric of each kind, recorded and delivered; compiled, without what reads TOML."""
    site = put_mmh3_in(tmp_path / "site")
    foreign, parsers = use([str(ROOT), site], tmp_path, metrics_text + HOME + FLOW + NUMBERS, form)
    assert foreign == "[]"
    assert (parsers == "[]") == (form == "json")


def test_importing_and_opening_load_no_network(tmp_path: Path, metrics_text: str) -> None:
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


def core_modules(source: Path) -> set[str]:
    """Files of the core that a source file names, in an import or for one that is made later."""
    named = re.findall(r"\brappor_core(?:\.\w+)*", source.read_text())
    packages = re.findall(r"from (rappor_core(?:\.\w+)*) import (\w+)", source.read_text())
    files = {name.replace(".", "/") for name in [*named, *map(".".join, packages)]}
    return {f"{file}.py" for file in files if (ROOT / f"{file}.py").exists()}


def with_packages(files: set[str]) -> set[str]:
    """The same with the `__init__.py` of every package that they are in."""
    parents = {parent for file in files for parent in Path(file).parents if parent.name}
    return files | {f"{parent.as_posix()}/__init__.py" for parent in parents}


def test_the_wheels_core_is_what_devices_import() -> None:
    parts = [base_files(), location_files(), number_files(), discover_files()]
    kinds = "pair", "association", "flow", "relay"
    parts += [wheel_files(f"client_{name}") for name in kinds]
    every = set.union(*parts)
    listed = {file for file in every if file.startswith("rappor_core/") and file.endswith(".py")}
    needed: set[str] = set()
    sources = list((ROOT / "client_sdk").rglob("*.py"))
    while sources:
        new = core_modules(sources.pop()) - needed
        needed |= new
        sources += [ROOT / file for file in new]
    assert listed == with_packages(needed) - NOT_ON_DEVICES
    assert len(every) == sum(map(len, parts))
    assert {f"rappor_core/codes/tables/{name}.json" for name in PACKAGED} <= discover_files()


def hook_of(project: str) -> dict[str, Any]:
    table = tomllib.loads((ROOT / "packaging" / project / "pyproject.toml").read_text())
    hook: dict[str, Any] = table["tool"]["hatch"]["build"]["targets"]["wheel"]["hooks"]["custom"]
    return hook


def wheel_files(project: str) -> set[str]:
    found: set[str] = script("wheel_files").wheel_files(ROOT, hook_of(project))
    return found


@cache
def texts_of(project: str) -> dict[str, str]:
    """Files as they are in the wheel of a project; to make them takes a second."""
    made: dict[str, str] = dict(script("wheel_files").wheel_texts(ROOT, hook_of(project)))
    return made


def wheel_texts(*projects: str) -> dict[str, str]:
    """Files as they are in the wheels of some projects."""
    return {name: text for project in projects for name, text in texts_of(project).items()}


def base_files() -> set[str]:
    return wheel_files("client")


def location_files() -> set[str]:
    return wheel_files("client_location")


def number_files() -> set[str]:
    return wheel_files("client_number")


def discover_files() -> set[str]:
    return wheel_files("client_discover")


def script(name: str) -> ModuleType:
    """A module of packaging/client, where its build finds it."""
    if (folder := str(ROOT / "packaging" / "client")) not in sys.path:
        sys.path.append(folder)
    return import_module(name)


def installed_in(folder: Path, *projects: str) -> list[str]:
    """What the wheels of some projects put on the path, without building them, and mmh3."""
    for name, text in wheel_texts(*projects).items():
        target = folder / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")
    return [put_mmh3_in(folder)]


STRIPPED = '''
#!/usr/bin/env python
"""A module of two lines,
the second with \u00e9."""
TEXT = "# no comment"  # a comment, \u00e9


class Empty(Exception):
    """Nothing else."""


def f(x):  # \u00e9
    """One line."""
    "no docstring"
    return x  # noqa


def g(): "\u00e9 on one line"; return 1
'''


def test_stripped_code_is_the_same_program() -> None:
    before, after = STRIPPED, script("strip_source").stripped(STRIPPED)
    assert len(after.splitlines()) == len(before.splitlines())
    for gone in ("two lines", "Nothing", "One line", "a comment", "noqa", "on one line", "python"):
        assert gone in before
        assert gone not in after
    spaces: list[dict[str, Any]] = [{}, {}]
    for text, space in zip((before, after), spaces, strict=True):
        exec(text, space)
    for space in spaces:
        assert (space["TEXT"], space["f"](3), space["g"]()) == ("# no comment", 3, 1)
        assert issubclass(space["Empty"], Exception)
    assert [space["f"].__code__.co_firstlineno for space in spaces] == [12, 12]
    assert spaces[1]["f"].__doc__ is spaces[1]["g"].__doc__ is spaces[1]["Empty"].__doc__ is None


BODIES = '''
"""Documented."""
from __future__ import annotations
from typing import TYPE_CHECKING, Any, NamedTuple
from rappor_core.reserved import OTHER as OTHER
if TYPE_CHECKING:
    from nowhere import Nothing
LIMIT: int = 3
TEXT = f"{LIMIT!r:>4} {{x}}" """ of
two lines"""
class Pair(NamedTuple):
    """Two."""
    first: int
    second: Nothing = None  # a comment
class Private:
    __slots__ = ("__x",)
    def __init__(self, x: Any) -> None:
        self.__x: Any = x
    def get(self):
        def inner() -> Any:
            return [self.__x for _ in range(LIMIT)]
        return inner()
class Child(Private):
    def get(self) -> list[Any]:
        return super().get() + [0 if not LIMIT else- 1]
def f(a: int, /, b: "Nothing" = 1, *c: int, d=2, **e: Any) -> "Nothing":
    """Only this."""
def g():
    global LIMIT
    LIMIT += 1
    return LIMIT, [y for y in (1, 2) if y in {LIMIT, 2}]
def renamed(number, a=1):
    total = [other * number for other in range(a)]
    try:
        raise ValueError(number)
    except ValueError as error:
        text = f"{error}{total!r}"
    nothing, (*rest, last) = None, (number, len(text))
    def inner(total):
        return total + last, lambda number=a: number + last
    return inner(total=number)[0] + inner(0)[1](number=0), rest, text
DOUBLED = [LIMIT * n for n in range(2) if LIMIT]
__mangled = lambda: __mangled
'''
LOOK = """
import rappor_core.one as one, pickle, sys, traceback
assert one.__doc__ is None and one.f.__doc__ is None and one.__name__ == "rappor_core.one"
assert one.TEXT == "   3 {x} of\\ntwo lines" and one.DOUBLED == [0, 3]
assert one.Pair(1) == (1, None) and repr(one.Pair(1)) == "Pair(first=1, second=None)"
assert one.Private(7).get() == [7] * 3 and one.Child(7).get() == [7, 7, 7, -1]
assert one.f(1, 2, 3, d=4, e=5) is None and one.f.__annotations__ == {}
assert one.renamed(number=7, a=2) == (21, [7], "7[0, 7]")
assert one.g() == (4, [2]) and one.LIMIT == 4 and one.OTHER == "other"
assert one.Child.__qualname__ == "Child" and one.Child.__module__ == "rappor_core.one"
assert one.f.__qualname__ == "f" and pickle.loads(pickle.dumps(one.f)) is one.f
assert one.__dict__["__mangled"]() is one.__dict__["__mangled"]
assert not {"typing", "nowhere"} & {"Any"} and "Any" not in vars(one)
try:
    import rappor_core.two
except ModuleNotFoundError as error:
    assert error.name == "rappor_core.two"
print(one.__spec__.origin == one.__file__ if "__file__" in vars(one) else one.__spec__.origin)
"""


def test_a_bundled_module_is_unchanged(tmp_path: Path) -> None:
    """Names, classes, comprehensions, globals, private names; but for annotations and documents."""
    files = script("bundle").bundled(
        {
            "rappor_core/__init__.py": "",
            "rappor_core/one.py": BODIES,
            "rappor_core/reserved.py": "OTHER = 'other'",
        }
    )
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    text = files["_rappor_client.py"]
    assert not [word for word in ("Documented", "nothing", "rest") if word in text]
    assert run(LOOK, [str(tmp_path)]).endswith("_rappor_client.py")
    with pytest.raises(ValueError, match="relative"):
        script("bundle").bundled({"rappor_core/one.py": "from . import two"})


AT_ONCE = """
import importlib.machinery, sys, threading, time
begun, failed = threading.Event(), []
class Slow:
    def find_spec(self, name, *_):
        if name != "_rappor_client":
            return None
        spec = importlib.machinery.PathFinder.find_spec(name)
        load = spec.loader.exec_module
        def slowly(module):
            begun.set()
            time.sleep(1)
            load(module)
        spec.loader.exec_module = slowly  # not find_spec: Python calls that under a global lock
        return spec
sys.meta_path.insert(0, Slow())
def load(name):
    try:
        importlib.import_module(name)
    except ImportError as error:
        failed.append(str(error))
threads = [threading.Thread(target=load, args=(name,)) for name in sys.argv[1:]]
for thread in threads:
    thread.start()
    begun.wait()
    time.sleep(0.1)  # while a package's own small file is read, Python lets nobody wait for it
for thread in threads:
    thread.join()
import client_sdk
print(failed, client_sdk is sys.modules["client_sdk"], hasattr(client_sdk, "Client"))
"""


@pytest.mark.long
@pytest.mark.parametrize("package", ["client_sdk", "rappor_core"])
def test_importing_threads_wait_for_each_other(tmp_path: Path, package: str) -> None:
    """Also for a module of a package whose own import has begun in another thread."""
    path = installed_in(tmp_path / "site", "client")
    names = [package, "client_sdk.errors", "rappor_core.errors", "client_sdk", "rappor_core"]
    assert run(AT_ONCE, path, *names) == "[] True True"


def test_the_base_sends_no_json_and_says_so(tmp_path: Path) -> None:
    path = installed_in(tmp_path / "site", "client")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run("from client_sdk import Delivery\nDelivery(json=True)", path)
    last = raised.value.stderr.splitlines()[-1]
    assert last.startswith("rappor_core.errors.ParameterError: json = True")
    assert "install rappor-telemetry;" in last


def test_the_base_shows_a_person_what_is_kept(tmp_path: Path) -> None:
    """`python -m client_sdk`, which the bundle holds, too."""
    path = installed_in(tmp_path / "site", "client")
    ask = """
import runpy
sys.argv[:] = ["x", "inspect", sys.argv[1]]
runpy.run_module("client_sdk", run_name="__main__")
"""
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run(ask, path, str(tmp_path / "nothing"))
    assert "holds no state of this SDK" in raised.value.stderr


def test_every_bundled_package_is_a_package() -> None:
    """The loader takes a module for a package where another one is in it."""
    packages = {name.rpartition("/")[0] for name in base_files() if name.endswith("/__init__.py")}
    parents = {name.rpartition("/")[0] for name in base_files() if not name.endswith("__init__.py")}
    assert packages <= parents


def test_the_base_alone_serves_a_device_without_places(tmp_path: Path, metrics_text: str) -> None:
    """Open, record, send, inspect, withdraw; and the vectors of reports."""
    path = installed_in(tmp_path / "site", "client")
    assert use(path, tmp_path, metrics_text, "json") == ["[]", "[]"]
    assert int(run(REPORTS, path, str(ROOT / "tests" / "vectors" / "v1"))) > 10


@pytest.mark.parametrize(
    ("text", "there", "missing", "form"),
    [
        (HOME, ["client"], "location", "toml"),
        (HOME, ["client"], "location", "json"),
        (NUMBERS, ["client"], "number", "json"),
        (FLOW, ["client", "client_location"], "flow", "json"),
        (SITE, ["client"], "discover", "json"),
        (LINKED, ["client"], "association", "json"),
    ],
)
def test_a_metric_says_which_wheel_it_needs(
    tmp_path: Path, metrics_text: str, text: str, there: list[str], missing: str, form: str
) -> None:
    path = installed_in(tmp_path / "site", *there)
    with pytest.raises(subprocess.CalledProcessError) as raised:
        use(path, tmp_path, metrics_text + text, form)
    last = raised.value.stderr.splitlines()[-1]
    assert last.endswith(f"install rappor-telemetry-client-{missing}")
    name = re.findall(r"metrics\.(\w+)", text)[-1]
    assert f"metric '{name}" in last or text in (FLOW, LINKED)


@pytest.mark.parametrize(
    ("text", "parts"),
    [
        (NUMBERS, ["client_number"]),
        (HOME, ["client_location"]),
        (HOME + FLOW, ["client_location", "client_flow"]),
        (SITE, ["client_discover"]),
        (LINKED, ["client_association"]),
    ],
)
def test_the_parts_serve_a_device_together(
    tmp_path: Path, metrics_text: str, text: str, parts: list[str]
) -> None:
    path = installed_in(tmp_path / "site", "client", *parts)
    assert use(path, tmp_path, metrics_text + text, "json") == ["[]", "[]"]


def test_a_device_without_associations_loads_nothing_of_them(
    tmp_path: Path, metrics_text: str
) -> None:
    """The base alone would fail where one of these modules were needed."""
    names = {"linking", "linked", "association"}
    assert not {Path(name).stem for name in base_files()} & names
    path = installed_in(tmp_path / "site", "client")
    assert use(path, tmp_path, metrics_text, "toml")[0] == "[]"


BEHIND_A_RELAY = """
from client_sdk import Client, Delivery, Relay
relay = Relay("https://relay.example.net/ohttp", bytes.fromhex(sys.argv[2]))
from client_sdk.pause import PausedMetrics
assert PausedMetrics.until and "ohttp.pause_list" in sys.modules
choices = dict(collector="https://x.example", consent=True, state_dir=sys.argv[3], relay=relay)
with Client.open(sys.argv[1], **choices) as client:
    print(client.record("theme", "dark"), relay)
"""


def test_both_parts_serve_a_device_behind_a_relay(tmp_path: Path, metrics_text: str) -> None:
    (tmp_path / "metrics.toml").write_text(metrics_text)
    keys = encode_keys([KeyConfig(5, bytes(32))]).hex()
    given = str(tmp_path / "metrics.toml"), keys, str(tmp_path / "state")
    alone = installed_in(tmp_path / "alone", "client")
    with pytest.raises(subprocess.CalledProcessError) as raised:
        run(BEHIND_A_RELAY, alone, *given)
    assert "client_sdk.delivery.relay" in raised.value.stderr.splitlines()[-1]
    path = installed_in(tmp_path / "both", "client", "client_relay")
    libraries = Path(cryptography.__file__).parents[1]
    for name in ("cryptography", *(file.name for file in libraries.glob("*cffi*"))):
        (tmp_path / "both" / name).symlink_to(libraries / name)
    said = run(BEHIND_A_RELAY, path, *given)
    assert said == "True Relay('https://relay.example.net/ohttp', key 5)"


MOST_KB = {
    "client": 60,
    "client_location": 29,
    "client_flow": 14.5,
    "client_number": 15.5,
    "client_discover": 24,
    "client_pair": 9.5,
    "client_association": 13,
    "client_relay": 19.0,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "projects",
    [
        ("client",),
        pytest.param((*MOST_KB,), marks=pytest.mark.long),
    ],
    ids=["base", "all"],
)
def test_the_wheels_hold_the_device_and_nothing_else(
    tmp_path: Path, metrics_text: str, projects: tuple[str, ...]
) -> None:
    """Built by pip with the backend of this environment: an isolated one is downloaded for each."""
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    folders = [str(ROOT / "packaging" / project) for project in projects]
    subprocess.run([*build, "-w", str(tmp_path), *folders], check=True)
    for project in projects:
        (wheel,) = tmp_path.glob(f"rappor_telemetry_{project}-*.whl")
        assert wheel.stat().st_size <= MOST_KB[project] * 1_000
        with zipfile.ZipFile(wheel) as archive:
            names = {name for name in archive.namelist() if ".dist-info" not in name}
            archive.extractall(tmp_path / "site")
        assert {name for name in names if "LICENSE" not in name} == {*wheel_texts(project)}
        assert len(names) == len(wheel_texts(project)) + 1
    assert "rappor_core/aggregate.py" not in base_files()
    path = [put_mmh3_in(tmp_path / "site")]
    parts = HOME + NUMBERS if "client_number" in projects else ""
    assert use(path, tmp_path, metrics_text + parts, "json") == ["[]", "[]"]
