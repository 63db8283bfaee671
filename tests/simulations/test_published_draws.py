"""The draws of the published experiments have the law of devices that run the SDK's encoder.

Each comparison is a chi-square test of two samples at 1e-4: false alarms of the file, without the
fixed seeds, below 1 in 1,000. A law that differs by one of the rules is rejected by the same test.
"""

from collections.abc import Iterable, Sequence
from datetime import date

import numpy as np
import pytest
from scipy.stats import chi2_contingency

from client_sdk import Encoder
from client_sdk.randomization.metric_encoder import InstantaneousRound, PermanentRound
from client_sdk.testing import FixedRandomness
from decoder import Candidates
from privacy_audit.black_box.observations import log_likelihood_ratio
from rappor_core.mechanism import TwoRoundMechanism
from rappor_core.metrics.metric import Metric
from rappor_core.params import RapporParams
from simulations.experiments.longitudinal import draw_ratios
from simulations.populations.draws import Holders, draw_aggregate, draw_listed, draw_repeated

DAY = date(2026, 11, 2)
ALARM = 1e-4
DEVICES = 1_500
SMALL = RapporParams.rappor(
    num_bits=6, num_hashes=2, num_cohorts=1, prob_f=0.5, prob_p=0.1, prob_q=0.9
)
LIFE = ("a", "a", "a", "a", "b")  # what a device reports


def metric_of(params: RapporParams) -> Metric:
    return Metric(
        name="metric", kind="string", description="d", owner="a@example.org",
        expires=date(2099, 1, 1), params=params, max_memoized_values=3, fallback="other",
    )  # fmt: skip


def devices(metric: Metric, life: Sequence[str], number: int) -> np.ndarray:
    """Sums (number, k) of the reports of devices that live `life`, by the real encoder."""
    source, sums = FixedRandomness(4), []
    for _ in range(number):
        encoder = Encoder({"metric": metric}, source(32), source)
        reports = [encoder.encode("metric", value, DAY).bits for value in life]
        rows = np.frombuffer(b"".join(reports), dtype=np.uint8).reshape(len(life), -1)
        bits = np.unpackbits(rows, axis=1, bitorder="little")[:, : metric.params.num_bits]
        sums.append(bits.sum(axis=0))
    return np.array(sums)


def agree(one: Iterable[int], other: Iterable[int]) -> float:
    """P-value that two samples of small numbers are of one law; rare outcomes are pooled."""
    samples = [np.asarray(list(sample)) for sample in (one, other)]
    size = int(max(sample.max() for sample in samples)) + 1
    table = np.array([np.bincount(sample, minlength=size) for sample in samples])
    rare = table.sum(axis=0) < 10
    table = np.column_stack([table[:, ~rare], table[:, rare].sum(axis=1)])
    return float(chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue)


def drawn(holders: Holders, number: int, rng: np.random.Generator) -> np.ndarray:
    """Sums (number, k) of one device at a time."""
    positions = Candidates.from_strings(["a", "b"]).positions(SMALL)
    counts = [draw_repeated(holders, positions, SMALL, rng).bit_counts[0] for _ in range(number)]
    return np.array(counts, dtype=np.int64)


def outcomes(sums: np.ndarray, bits: Sequence[int]) -> np.ndarray:
    """The joint outcome of some bits, as one number each, (n,)."""
    return sums.astype(np.int64)[:, bits] @ (len(LIFE) + 1) ** np.arange(len(bits))


@pytest.fixture(scope="module")
def lived() -> np.ndarray:
    return devices(metric_of(SMALL), LIFE, DEVICES)


@pytest.mark.statistical
def test_repeated_reports_are_those_of_devices(lived: np.ndarray) -> None:
    rng = np.random.default_rng(1)
    holders = Holders.of(1, np.zeros(5, int), np.array([0, 0, 0, 0, 1]), np.ones(5, int))
    sums = drawn(holders, DEVICES, rng)
    for bits in ((0, 1), (2, 3), (4, 5)):
        assert agree(outcomes(lived, bits), outcomes(sums, bits)) > ALARM


@pytest.mark.statistical
def test_redrawn_permanent_bits_are_rejected(lived: np.ndarray) -> None:
    """If each report were of a different device: the mean is the same, the law is not."""
    rng = np.random.default_rng(1)
    apart = Holders.of(5, np.arange(5), np.array([0, 0, 0, 0, 1]), np.ones(5, int))
    sums = drawn(apart, DEVICES, rng)
    assert sums.mean() == pytest.approx(lived.mean(), rel=0.02)
    assert min(agree(outcomes(lived, b), outcomes(sums, b)) for b in ((0, 1), (2, 3))) < ALARM


@pytest.mark.statistical
def test_equal_bits_share_their_permanent_response() -> None:
    """Two names of one set of bits: the device's response is a function of the bits."""
    params = RapporParams.rappor(
        num_bits=2, num_hashes=1, num_cohorts=1, prob_f=0.5, prob_p=0.25, prob_q=0.75
    )
    names = [f"n{i}" for i in range(12)]
    positions = Candidates.from_strings(names).positions(params)
    first, other, *_ = np.flatnonzero(positions[:, 0, 0] == positions[0, 0, 0])
    lived = devices(metric_of(params), [names[first], names[other]], DEVICES)
    rng = np.random.default_rng(2)
    holders = Holders.of(1, np.zeros(2, int), np.array([first, other]), np.ones(2, int))
    sums = np.array(
        [draw_repeated(holders, positions, params, rng).bit_counts[0] for _ in range(DEVICES)]
    )
    bit = int(positions[0, 0, 0])
    assert agree(lived[:, bit], sums[:, bit]) > ALARM


@pytest.mark.statistical
@pytest.mark.parametrize(
    "params",
    [
        RapporParams.rappor(
            num_bits=8, num_hashes=2, num_cohorts=1, prob_f=0.5, prob_p=0.5, prob_q=0.75
        ),
        RapporParams(6, 1, 1, TwoRoundMechanism.symbols(6, 3.0, 1.5), "symbol"),
        RapporParams(8, 1, 1, TwoRoundMechanism.one_shot(0.7)),
    ],
    ids=["memo", "symbol", "window"],
)
def test_adversaries_see_what_devices_send(params: RapporParams) -> None:
    """Evidence between two values, after five reports; then with two reports too many."""
    reports, h, k, rng = 5, params.num_hashes, params.num_bits, np.random.default_rng(3)
    lived = noise_of(params, (1 << h) - 1, reports)
    masks = np.zeros((2, DEVICES, k), dtype=np.uint8)
    masks[0, :, :h], masks[1, :, h : 2 * h] = 1, 1
    real = np.round(log_likelihood_ratio(params, reports, lived, masks), 9)
    for number, expected in ((reports, True), (reports + 2, False)):
        ratio, world = draw_ratios(params, number, 2 * DEVICES, rng)
        seen = np.round(ratio[world == 0], 9)
        levels = np.unique(np.concatenate([real, seen]))
        indices = np.searchsorted(levels, real), np.searchsorted(levels, seen)
        assert (agree(*indices) > ALARM) is expected


def noise_of(params: RapporParams, bits: int, reports: int) -> np.ndarray:
    """Sums (DEVICES, k) of reports of B = `bits`, by the SDK's two rounds."""
    source, symbol, k = FixedRandomness(6), params.scheme.symbols, params.num_bits
    fresh = InstantaneousRound(params.mechanism, k, source, symbol=symbol)
    sums = np.zeros((DEVICES, k), dtype=np.int64)
    for device in range(DEVICES):
        secret = device.to_bytes(32, "big")
        kept = PermanentRound(secret, "m", "00" * 16, params.mechanism, k, symbol=symbol)(bits)
        for _ in range(reports):
            shown = fresh(kept)
            sums[device] += np.array([shown >> bit & 1 for bit in range(k)])
    return sums


@pytest.mark.parametrize("each", [1, 4])
def test_hashed_lists_are_drawn_as_values_are(each: int) -> None:
    """The same generator gives the same counts, where hashes of a value coincide, too."""
    params = RapporParams.rappor(
        num_bits=8, num_hashes=2, num_cohorts=5, prob_f=0.5, prob_p=0.5, prob_q=0.75
    )
    values, shares = [f"v{i}" for i in range(40)], np.full(40, 1 / 40)
    positions = Candidates.from_strings(values).positions(params)
    assert (positions == 8).any()
    one = draw_aggregate(values, shares, 9_000, params, np.random.default_rng(5), reports_each=each)
    other = draw_listed(positions, shares, 9_000, params, np.random.default_rng(5), each)
    assert one[0] == other[0]
    np.testing.assert_array_equal(one[1], other[1])


def test_rows_of_device_and_value_add_up() -> None:
    device, value = np.array([0, 1, 0, 0]), np.array([2, 2, 2, 0])
    holders = Holders.of(2, device, value, np.array([1, 5, 2, 4]))
    assert holders.num_reports == 12
    assert holders.repetition == pytest.approx((9 + 25 + 16) / 12)
    assert holders.shares(3).tolist() == pytest.approx([4 / 12, 0, 8 / 12])
