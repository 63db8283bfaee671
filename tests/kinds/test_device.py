"""Every kind on its way from a declaration to reports: meaning, encoding, wire, ledger, plan."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from client_sdk import Client, Delivery, Encoder
from client_sdk.testing import FixedRandomness, MemoryCollector
from decoder.kinds.interface import DECODERS
from metric_design.kind_design import DESIGNS, Question, kind_design
from metric_design.review import check_metrics
from rappor_core.metrics.compiled import compiled_text, read_compiled
from rappor_core.metrics.kinds import KINDS
from rappor_core.metrics.metric import Metric
from rappor_core.wire.binary import decode_binary, encode_binary
from rappor_core.wire.json import decode_json, encode_json
from rappor_core.wire.report import make_batch
from simulations.experiments.demo import held_values
from tests.kinds.worlds import DECLARED, World, world_of

# What reports mean; another id would be other reports, which no decoder may add to these.
PARAMS_IDS = {
    "string": "04902846d450a1388bd9d7fd4e4f80b7",
    "category": "24ca49d7cab99acada9ea7fab699fbf7",
    "boolean": "e145f51fc658fc1fd932f73e79065bbf",
    "number": "6e557d00370f4c74b2044ff0c2ad7802",
    "pair": "5c885b8a59d52ee7a1fb49132636ff70",
    "discover": "172f65e8210e9c55fb5d9abaea2d0ca0",
    "location": "93b6d6d4a7bd9126d9b9f7447ba4e9ce",
    "flow": "c66649a723ee61d654e7205ab61f2632",
}
PERIODS = 4
each_kind = pytest.mark.parametrize("world", [world_of(kind) for kind in DECLARED],
                                    ids=list(DECLARED))  # fmt: skip


def test_every_kind_has_a_world_and_a_decoder() -> None:
    assert DECLARED.keys() == KINDS.keys() == DESIGNS.keys() == DECODERS.keys() == PARAMS_IDS.keys()


@each_kind
def test_a_declaration_keeps_its_meaning(world: World) -> None:
    (identity,) = {metric.params_id for metric in world.metrics.values()}
    assert identity == PARAMS_IDS[world.kind]
    found = read_compiled(compiled_text(world.file))
    assert found.metrics == world.metrics
    for metric in world.metrics.values():
        assert Metric.from_dict(metric.to_dict()) == metric


@each_kind
def test_every_value_fits_in_every_cohort(world: World) -> None:
    day = world.days[0]
    for name, metric in world.metrics.items():
        params, cohorts = metric.params, set()
        for seed in range(40 * params.num_cohorts):
            device = Encoder(world.metrics, FixedRandomness(seed)(32), FixedRandomness(seed))
            value = held_values(metric)[seed % len(held_values(metric))]
            report = device.encode(name, value, day)
            assert len(report.bits) == -(-params.num_bits // 8)
            assert int.from_bytes(report.bits, "little") < 1 << params.num_bits
            cohorts.add(report.cohort)
        assert cohorts == set(range(params.num_cohorts))


@each_kind
def test_reports_are_the_same_on_both_wires(world: World) -> None:
    batch = make_batch(bytes(16), world.reports[0][:500])
    assert decode_binary(encode_binary(batch)).ungrouped() == batch
    assert decode_json(encode_json(batch)).ungrouped() == batch


@each_kind
def test_a_life_of_every_kind_stays_in_its_ledger(world: World, tmp_path: Path) -> None:
    """Another value in each period, the app closed between them: what arrives was declared, and
    the ledger has committed something, never more than the declaration allows."""
    metric = world.file.declared[0]
    start = datetime.combine(world.days[0], datetime.min.time(), UTC)
    length = {"day": 1, "week": 7}[metric.period]
    clock = [start]
    with MemoryCollector(world.metrics) as collector:
        for number in range(PERIODS):
            clock[0] = start + timedelta(number * length)
            with Client.open(
                world.file, state_dir=tmp_path, collector=collector.url, consent=True,
                delivery=Delivery(mean_delay=0), clock=lambda: clock[0].timestamp(),
                randomness=FixedRandomness(number),
            ) as client:  # fmt: skip
                client.flush(10)  # what a period that is over has to say
                for hour in (1, 3, 10, 14, 23):
                    clock[0] = start + timedelta(number * length, hours=hour)
                    _give(client, metric, number, clock[0])
                client.flush(10)
                account = client.inspect()
    assert collector.reports, account
    assert {one.params_id for one in collector.reports} == {PARAMS_IDS[world.kind]}
    for line in account["metrics"]:
        assert 0 < line["epsilon_committed"] <= line["epsilon_worst_case"] * (1 + 1e-9), line
        assert line["values_memoised"] <= line["max_memoized_values"]


def _give(client: Client, metric: Metric, number: int, at: datetime) -> None:
    if metric.rules.takes_fixes:
        client.record_location(metric.base_name, 0.5 + number % 2, 0.5, at)
    else:
        values = held_values(metric)
        client.record(metric.name, values[number % len(values)])


@each_kind
def test_the_review_finds_no_error_and_more_devices_help(world: World) -> None:
    found = list(check_metrics(world.file, today=None, population=100_000))
    assert not [one for one in found if one.level == "error"], found
    design, metric = kind_design(world.kind), world.file.declared[0]
    if design.asks is not None:
        few, many = (
            design.reached(metric, Question(metric.base_name, {"kind": world.kind}, devices=number))
            for number in (1e4, 1e6)
        )
        assert 0 < many < few
