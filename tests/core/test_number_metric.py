"""Metrics of numbers: what a file may declare, which cuts there are, which symbol a number has."""

import math
from itertools import pairwise, product

import pytest

from metric_design.number_kind import NUMBER as NUMBER_DESIGN
from rappor_core.errors import MetricsFileError, ParameterError
from rappor_core.metrics.compiled import compiled_text, read_compiled
from rappor_core.metrics.file import parse_metrics
from rappor_core.metrics.metric import Metric
from rappor_core.metrics.number import NO_CUT

BASE = {
    "kind": '"number"',
    "description": '"a test"',
    "owner": '"a@example.org"',
    "expires": "2027-06-30",
    "unit": '"ms"',
    "of_period": '"median"',
    "edges": "[1, 2.5, 10]",
    "none": '"apart"',
    "mode": '"memo"',
    "epsilon_infinity": "1.0",
    "epsilon_one": "0.9",
}
ONCE = {"mode": '"once"', "epsilon": "2.0", "epsilon_infinity": None, "epsilon_one": None}


def declared(**changes: str | None) -> Metric:
    keys = {key: value for key, value in (BASE | changes).items() if value is not None}
    text = "[metrics.m]\n" + "\n".join(f"{key} = {value}" for key, value in keys.items())
    file = parse_metrics(text)
    assert read_compiled(compiled_text(file)) == file
    return file.metrics["m"]


def test_edges_linear_logarithmic_and_listed() -> None:
    assert declared().details.edges == (1.0, 2.5, 10.0)
    linear = declared(edges='{ scale = "linear", from = 0, to = 1, bins = 4 }').details
    assert linear.edges == (0.0, 0.25, 0.5, 0.75, 1.0)
    assert linear.asked == (NO_CUT, 0.25, 0.5, 0.75, 1.0)  # who has data is at or above 0
    log = declared(edges='{ scale = "log", from = 50, to = 60000 }').details
    assert len(log.edges) == 33
    assert (log.edges[0], log.edges[1], log.edges[-1]) == (50.0, 62.4014, 60000.0)
    whole = declared(edges='{ scale = "log", from = 1, to = 8, bins = 12 }', whole="true").details
    assert whole.edges == (1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"edges": "[]"}, "are not 1 to 1,000 numbers"),
        ({"edges": "[nan]"}, "edge nan is not a number"),
        ({"edges": '"ten"'}, "edges = 'ten' is not a list"),
        ({"edges": "{ from = 1, to = 2 }"}, "scale is missing"),
        ({"edges": '{ scale = "linear", from = 3, to = 2 }'}, "do not rise"),
        ({"edges": '{ scale = "linear", from = 1, to = 2, bins = 501 }'}, "bins = 501"),
        ({"edges": "[0]", "none": '"zero"'}, "ask nothing"),
        ({"unit": '""'}, "unit = ''"),
        ({"of_period": '"mode"'}, "of_period = 'mode' is not one of"),
        ({"mode": '"window"'}, "mode = 'window' is not one of memo, once"),
        ({"num_bits": "2"}, "unknown key num_bits"),
        ({"epsilon": "1.0"}, "epsilon = 1.0 goes with mode = 'once'"),
        ({"of_period": '"count"', "whole": "false"}, "counts are whole"),
        (ONCE | {"epsilon": "11.0"}, "epsilon = 11.0"),
        (ONCE | {"num_symbols": "1"}, "num_symbols = 1 is not a whole number"),
    ],
)
def test_a_declaration_that_cannot_work_is_refused(changes, said) -> None:
    with pytest.raises(MetricsFileError, match=said):
        declared(**changes)


def test_a_compiled_definition_is_read_strictly() -> None:
    definition = declared().to_dict()
    for key, value in (("edges", [3, 1]), ("edges", None), ("mode", "window"), ("spread", 2)):
        wrong = {**definition, "details": {**definition["details"], key: value}}
        with pytest.raises((MetricsFileError, ParameterError)):
            Metric.from_dict(wrong)
    with pytest.raises(MetricsFileError):
        Metric.from_dict({**definition, "details": {}})


LIVES = [life for length in range(1, 6) for life in product((0, 1), repeat=length)]


def outputs(metric: Metric, life: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """The chance of every series of reports, summed over the two permanent answers."""
    scale, mechanism = 1 << 16, metric.params.mechanism
    p1, p2 = mechanism.p1 / scale, mechanism.p2 / scale
    result: dict[tuple[int, ...], float] = {}
    for answers in product((0, 1), repeat=2):
        chance = math.prod(p1 if answers[s] == s else 1 - p1 for s in (0, 1))
        for series in product((0, 1), repeat=len(life)):
            each = (
                p2 if answers[s] == out else 1 - p2 for s, out in zip(life, series, strict=True)
            )
            result[series] = result.get(series, 0.0) + chance * math.prod(each)
    return result


def loss(one: dict[tuple[int, ...], float], other: dict[tuple[int, ...], float]) -> float:
    return max(abs(math.log(one[s] / other[s])) for s in one)


@pytest.mark.parametrize("epsilon", ["0.5493", "1.0", "2.0"])
def test_the_promise_holds_for_every_life_and_output(epsilon) -> None:
    metric = declared(epsilon_infinity=epsilon, epsilon_one=str(0.9 * float(epsilon)))
    bound = metric.params.epsilon_infinity
    assert metric.lifetime_epsilon == pytest.approx(2 * bound)
    still, same, other = 0.0, 0.0, 0.0
    for length in range(1, 6):
        all_lives = {life: outputs(metric, life) for life in LIVES if len(life) == length}
        for one, two in product(all_lives, repeat=2):
            nats = loss(all_lives[one], all_lives[two])
            changes = [[a != b for a, b in pairwise(x)] for x in (one, two)]
            if not any(changes[0] + changes[1]):
                still = max(still, nats)
            elif changes[0] == changes[1]:
                same = max(same, nats)
            else:
                other = max(other, nats)
    assert 0.8 * bound < still <= bound * (1 + 1e-9)
    assert bound < same <= 2 * bound * (1 + 1e-9)
    assert other > 2 * bound  # when the answer changes is not hidden, as privacy.md says


def test_a_bound_lowers_the_cost_of_memoized_answers() -> None:
    assert declared().max_reports is None
    metric = declared(max_reports="1")
    assert metric.max_reports == 1
    assert metric.lifetime_epsilon == metric.epsilon_one
    assert metric.params_id == declared().params_id
    assert declared(**ONCE, max_reports="1").max_reports == 1
    with pytest.raises(MetricsFileError, match="max_reports = 2 must be 1 for mode 'once'"):
        declared(**ONCE, max_reports="2")


@pytest.mark.parametrize("ask", ["edges", "mean"])
def test_check_takes_fewer_devices_than_spread_periods(ask) -> None:
    edges = '{ scale = "linear", from = 0, to = 10, bins = 4 }'
    metric = declared(**ONCE, spread="10", ask=f'"{ask}"', edges=edges)
    few, more = (
        [text for level, text in NUMBER_DESIGN.findings(metric, devices) if level == "warning"]
        for devices in (9, 19)
    )
    assert len(few) == 1
    assert all("1 reports a period" in text for text in more)
