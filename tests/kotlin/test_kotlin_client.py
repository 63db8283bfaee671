"""The Kotlin client with Python: equal bytes, kills at random points, the decoder, and the audit.

Its own tests are in `client_kotlin/test`; `make test-kotlin` runs them.
"""

import random
import shlex
import sqlite3
import subprocess
import time
import tomllib
from contextlib import closing, suppress
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from client_sdk import Encoder
from client_sdk.testing import MemoryCollector
from collector.server import running_collector
from collector.settings import load_settings
from decoder.candidates.lists import Candidates
from decoder.options import DecodeOptions
from decoder.pipeline import decode
from privacy_audit.audit import AuditOptions, audit
from rappor_core.aggregate import Aggregate
from rappor_core.errors import RapporError
from rappor_core.metrics.compiled import compiled, compiled_text
from rappor_core.metrics.file import parse_metrics
from tests.kotlin.kotlin_support import ROOT, ask, build_with, command, with_kotlin
from tests.metric_texts import declaration
from tests.privacy_audit.faults import METRICS, TWO_STRINGS

pytestmark = with_kotlin
DEFINITIONS = 500
WORDS = ("", "a", "TITLE I", "\u0130\u0131", "café", "cafe\u0301", "東京", "😀", "x" * 300, "a | b")
EPSILONS = ((1.0, 0.5), (2.0, 1.0), (3.0, 1.5), (4.0, 3.9), (8.0, 7.0))
BOXES = ([40.5, -74.3, 40.95, -73.65], [-21, 176, -12, -178])
SLOTS = ["night 22-6", "work 9-17 weekdays"]


def random_metric(draw: random.Random, name: str) -> tuple[str, list[Any]]:
    """A declaration of some kind that the client has, and values of it."""
    one_of = draw.choice
    infinity, one = one_of(EPSILONS)
    nats = {"epsilon_infinity": infinity, "epsilon_one": one}
    kind = one_of(["string", "category", "boolean", "pair", "number", "location"])
    keys: dict[str, Any] = {"period": one_of(["day", "week", "month"])}
    values: list[Any] = [False, True]
    if kind in ("string", "category"):
        keys |= {"mechanism": one_of(["rappor", "l-sue", "l-osue"])}
    if kind == "string":
        keys |= one_of([{}, {"hash": "md5"}]) | {
            "fallback": "other", "num_bits": one_of([8, 13, 250]), "num_hashes": one_of([1, 2, 4]),
            "num_cohorts": one_of([1, 3, 32, 100]), "max_memoized_values": draw.randint(2, 9),
        }  # fmt: skip
        values = list(WORDS)
    elif kind == "category":
        values = draw.sample(
            ["light", "dark", "café", "I", "\u0131", "東", "x y"], draw.randint(2, 7)
        )
        keys |= {"categories": values, "max_memoized_values": len(values)}
    elif kind == "pair":
        sides = [draw.sample(["a", "b", "é"], 2), one_of([[True, False], ["x", "y"]])]
        keys |= {"of": ["one", "two"], "max_memoized_values": 4}
        keys |= {"values": dict(zip(keys["of"], sides, strict=True))}
        values = [[a, b] for a in sides[0] for b in sides[1]]
    elif kind == "number":
        scale, low = one_of([("linear", -3.5), ("linear", 0), ("log", 0.01), ("log", 30)])
        high, lowest = low + one_of([7, 1e4]), float(max(low, 0))
        nats = one_of(
            [{"mode": "once", "epsilon": one_of([1.0, 2.5, 6.0])}, {"mode": "memo", **nats}]
        )
        keys |= one_of([{}, {"ask": "mean"}]) | {
            "edges": {"scale": scale, "from": low, "to": high, "bins": draw.randint(2, 20)},
            "unit": "s", "of_period": one_of(["sum", "median"]), "none": one_of(["apart", "zero"]),
        }  # fmt: skip
        values = [None, high, lowest, *(draw.uniform(lowest, low + 1e4) for _ in range(5))]
    elif kind == "location":
        grid = one_of(["quadkey", "geohash", "square"])
        levels = sorted(draw.sample(range(1, 5), draw.randint(1, 2)))
        memo = {"mode": "memo", "max_memoized_values": 3, "mechanism": "l-osue", **nats}
        window = {"mode": "window", "window": 5, "turn": "fresh", "hold": 2, "epsilon": 2.0}
        nats = one_of([memo, window | {"max_reports": 4}])
        keys |= {"rows": draw.randint(1, 9), "columns": 3} if grid == "square" else {}
        keys |= {"grid": grid, "box": one_of(BOXES), "levels": levels, "slots": SLOTS,
                 "num_bits": one_of([16, 32]), "num_cohorts": one_of([1, 4, 64])}  # fmt: skip
        values = ["other", f"{levels[0]}-0-1", "0320"]
    return declaration(name, kind, **nats, **keys), values


def test_500_random_definitions_and_values_are_encoded_as_in_python() -> None:
    draw, texts, values = random.Random(59), list[str](), dict[str, list[Any]]()
    while len(texts) < DEFINITIONS:
        text, given = random_metric(draw, f"m{len(texts)}")
        with suppress(RapporError):  # a combination that is refused
            parse_metrics(text)
            values[f"m{len(texts)}"] = given
            texts.append(text)
    file = parse_metrics("".join(texts))
    assert len({metric.kind for metric in file.declared}) == 6
    commands, wanted = list[dict[str, Any]](), list[dict[str, Any]]()
    for name, metric in file.metrics.items():
        secret, fixed = draw.randbytes(32), draw.randbytes(2048)
        encoder = Encoder(file.metrics, secret, lambda n, of=fixed: of[:n])
        device, value = encoder.metric(name), draw.choice(values[metric.base_name])
        bits = device.value_bits(tuple(value) if isinstance(value, list) else value)
        given = {"metric": name, "secret": secret.hex(), "value": value, "random": fixed.hex()}
        commands.append({"do": "encode", **given})
        size = metric.params.report_bytes
        wanted.append({
            "ok": True, "cohort": device.cohort, "bloom_bits": bits.to_bytes(size, "little").hex(),
            "permanent_bits": device.permanent_bits(bits).to_bytes(size, "little").hex(),
            "report_bits": [device.report_bits(bits).hex()],
            "ledger_digest": device.digest(bits).hex(),
        })  # fmt: skip
    first, *answers = ask([{"do": "metrics", "document": compiled(file)}, *commands])
    assert first == {"ok": True}
    assert len(answers) >= DEFINITIONS
    rows = zip(commands, answers, wanted, strict=True)
    assert [row for row in rows if row[1] != row[2]] == []


HOMEPAGE = declaration(
    "homepage", "string", num_bits=128, num_hashes=2, num_cohorts=32, prob_f=0.5, prob_p=0.5,
    prob_q=0.75, max_memoized_values=3, fallback="other", max_reports_per_period=10_000,
)  # fmt: skip


class Kill(NamedTuple):
    """Starts devices on one folder, kills them, and counts the lines of what they recorded."""

    folder: Path
    address: str

    def start(self, number: int, what: str, *before: str) -> subprocess.Popen[str]:
        """before: words in front of the program's."""
        state, metrics = str(self.folder / "state"), str(self.folder / "metrics.json")
        words = [
            *before,
            *command("DeviceProcessKt"),
            state,
            self.address,
            str(number),
            what,
            metrics,
        ]
        return subprocess.Popen(words, stdout=subprocess.PIPE, text=True)

    def at_random(self, points: int, seed: int) -> int:
        """Values that were acknowledged to the app over all processes."""
        draw, recorded = random.Random(seed), 0
        for _ in range(points):
            device = self.start(10_000, draw.choice(["record", "flush", "close"]))
            assert device.stdout.readline() == "open\n"
            time.sleep(draw.uniform(0, 0.25))
            device.kill()
            recorded += device.communicate()[0].count("recorded\n")
        last = self.start(1, "record")
        assert last.communicate(timeout=60)[0] == "open\nrecorded\nclosed\n"
        return recorded + 1


def test_killed_at_six_random_points_nothing_is_lost_or_doubled(tmp_path: Path) -> None:
    (tmp_path / "metrics.json").write_text(compiled_text(parse_metrics(HOMEPAGE)))
    with MemoryCollector(parse_metrics(HOMEPAGE).metrics) as collector:
        recorded = Kill(tmp_path, collector.url).at_random(6, seed=1)
        assert recorded <= collector.counted()["homepage"] <= recorded + 6


@pytest.mark.long
def test_killed_at_60_random_points_a_real_collector_counts_each_report_once(
    tmp_path: Path,
) -> None:
    """Each kill leaves room for one more: the moment between the write and the line on stdout."""
    toml, database = tmp_path / "metrics.toml", tmp_path / "reports.sqlite"
    toml.write_text(HOMEPAGE)
    (tmp_path / "metrics.json").write_text(compiled_text(parse_metrics(HOMEPAGE)))
    settings = load_settings(
        metrics=toml, database=f"sqlite:///{database}", require_keys=False, port=0
    )
    with running_collector(settings) as address:
        recorded = Kill(tmp_path, address).at_random(60, seed=2)
    with closing(sqlite3.connect(database)) as opened:
        (counted,) = opened.execute("SELECT sum(num_reports) FROM counters").fetchone()
    assert recorded > 100
    assert recorded <= counted <= recorded + 60


def test_a_file_that_may_not_grow_loses_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    """A limit of the system in place of a full disk: every write past it fails."""
    (tmp_path / "metrics.json").write_text(compiled_text(parse_metrics(HOMEPAGE)))
    device = Kill(tmp_path, "http://127.0.0.1:1").start(
        10_000, "record", "prlimit", "--fsize=40000"
    )
    time.sleep(2)
    device.kill()
    recorded = device.communicate()[0].count("recorded\n")
    assert recorded > 10
    with MemoryCollector(parse_metrics(HOMEPAGE).metrics) as collector:
        last = Kill(tmp_path, collector.url).start(1, "record")
        assert last.communicate(timeout=60)[0].endswith("closed\n")
        assert recorded + 1 <= collector.counted()["homepage"] <= recorded + 2


@pytest.mark.long
def test_the_decoder_finds_the_shares_of_20_000_kotlin_devices() -> None:
    """A share beyond 4.9 standard errors is one in a million; the seed is the system's."""
    text = declaration(
        "homepage", "string", num_bits=64, num_hashes=1, num_cohorts=8, mechanism="l-sue",
        epsilon_infinity=4.0, epsilon_one=3.0, max_memoized_values=2, fallback="other",
    )  # fmt: skip
    file = parse_metrics(text)
    params = file.metrics["homepage"].params
    shares = {"alpha": 0.5, "beta": 0.3, "gamma": 0.2}
    commands = [
        {"do": "count", "metric": "homepage", "value": value, "devices": round(20_000 * share)}
        for value, share in shares.items()
    ]
    _, *answers = ask([{"do": "metrics", "document": compiled(file)}, *commands])
    totals = [0] * params.num_cohorts
    bits = [[0] * params.num_bits for _ in totals]
    for answer in answers:
        for cohort, (number, *row) in answer["bits"].items():
            totals[int(cohort)] += number
            bits[int(cohort)] = [a + b for a, b in zip(bits[int(cohort)], row, strict=True)]
    assert sum(totals) == 20_000
    assert max(totals) < 20_000 / 8 * 1.12  # cohorts are even: 5.9 standard deviations
    counts = Aggregate("homepage", params, tuple(totals), tuple(map(tuple, bits)))
    candidates = Candidates.from_strings([*shares, "delta", "epsilon"])
    decoding = decode(counts, candidates, DecodeOptions(alpha=1e-7))
    found = {row.value: row for row in decoding.detected}
    assert set(found) == set(shares)
    for value, share in shares.items():
        assert abs(found[value].share - share) < 4.9 * found[value].std_error


@pytest.mark.long
def test_the_audit_finds_no_broken_claim_of_the_kotlin_client() -> None:
    options = AuditOptions(trials=4_000, processes=2, apps=4, alpha=1e-7)
    box = shlex.join(command("BoxKt"))
    result = audit(parse_metrics(METRICS), options, command=box, app=box)
    assert result.broken == ()
    assert "values past the cap, 7 reports" in {check.what for check in result.checks}


FAULTS = tomllib.loads(Path(__file__).with_name("faults.toml").read_text())["faults"]
QUIET = TWO_STRINGS.replace('no_data = "none"\n', "")  # a period without a value has no report


@pytest.mark.long
@pytest.mark.parametrize("fault", FAULTS, ids=[fault["name"] for fault in FAULTS])
def test_a_fault_of_the_kotlin_client_is_found(fault: dict[str, str], tmp_path: Path) -> None:
    box = shlex.join(command("BoxKt", build_with(tmp_path, fault)))
    options = AuditOptions(trials=2_000, processes=1, parts=(fault["part"],), apps=0, alpha=1e-7)
    broken = [check.what for check in audit(parse_metrics(QUIET), options, command=box).broken]
    assert any(fault["seen_by"] in what for what in broken), broken


FEATURES = (  # of the rows of docs/porting.md: what the sources of TypeScript and Kotlin have then
    ('kind: "pair"', "enum class Kind { STRING, CATEGORY, BOOLEAN, LOCATION, NUMBER, PAIR"),
    ('kind: "flow"', "enum class Kind { STRING, CATEGORY, BOOLEAN, LOCATION, NUMBER, PAIR, FLOW"),
    ("polygonToCells", "enum class GridKind { QUADKEY, GEOHASH, SQUARE, H3"),
    ("message/ohttp-req", "message/ohttp-req"),
    ("from toml", "toml."),
)


def test_the_matrix_of_features_is_that_of_the_sources() -> None:
    """Python has every feature of the page; the other tests of this repository prove them."""
    page = (ROOT / "docs" / "porting.md").read_text().partition("| feature |")[2]
    rows = [line.split(" | ")[1:] for line in page.partition("\n\n")[0].splitlines()[2:]]
    folders = (("client_js", "*.ts"), ("client_kotlin", "*.kt"))
    sources = [
        "".join(path.read_text() for path in (ROOT / name / "src").rglob(kind))
        for name, kind in folders
    ]
    for row, texts in zip(rows, FEATURES, strict=True):
        has = [text in source for text, source in zip(texts, sources, strict=True)]
        assert [cell.strip(" |") for cell in row] == [
            "yes",
            *("yes" if one else "no" for one in has),
        ]
