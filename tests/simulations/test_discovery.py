"""The comparison in a small form: ours first, nothing false, and what the statement counts."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest

from decoder.discovery.discovery import FoundString
from decoder.model.noise import BitNoise
from rappor_cli.main import main
from simulations.experiments.discovery import (
    OURS,
    PEM,
    compare,
    discover_metric,
    drawn_strings,
)
from simulations.experiments.discovery_draws import drawer
from simulations.experiments.discovery_nulls import KINDS, NullPopulation, null_population
from simulations.experiments.pem import block_number, block_text, blocks_of
from simulations.populations.prefix_draws import StringPopulation, draw_buckets


def test_blocks_come_back() -> None:
    assert blocks_of("ab.de")[:3] == ["ab.", "de ", "   "]
    for block in ("aaa", "z9_", "ab ", "-. "):
        assert block_text(block_number(block)) == block
    assert max(map(block_number, ("   ", "___"))) < 2**16


@pytest.mark.long
def test_ours_finds_more_than_pem() -> None:
    """One population at epsilon 4 and 400,000 devices; the seed is fixed."""
    rng = np.random.default_rng(17)
    strings = drawn_strings(2_000, rng)
    rows = compare(strings, [(4.0, 400_000)], 1, rng)
    found = {row.method: row.runs[0] for row in rows}
    assert set(found) == {OURS, PEM}
    ours = found[OURS]
    assert ours.found > found[PEM].found > 5
    assert ours.first[0] == 10
    assert sum(ours.covered) >= 0.8 * len(ours.covered)


def test_the_metric_is_that_of_the_file() -> None:
    metric = discover_metric(4.0)
    assert metric.params.report_bytes == 128
    assert metric.num_values is None


@pytest.mark.long
def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "4", "--reports", "20000", "--runs", "1", "--no-rivals", "--seed", "1"]
    assert main(["simulate", "discovery", *words, "--markdown"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("| 4 | 20,000 | coded prefixes |")


def test_draws_by_bucket_are_of_the_strings() -> None:
    """Mean counts of 100 draws each way, all within 5.5 standard errors of each other."""
    rng = np.random.default_rng(5)
    metric = discover_metric(4.0, small=True)
    population = StringPopulation.of(metric, drawn_strings(40, rng))
    shares, runs = np.linspace(1, 3, 40) / 80, 100
    buckets = population.bucket_shares(shares)
    both = [
        [population.draw(shares, 20_000, rng)[0] for _ in range(runs)],
        [draw_buckets(metric, buckets, 20_000, rng) for _ in range(runs)],
    ]
    counts = np.array([[one.bit_counts for one in drawn] for drawn in both], dtype=float)
    difference = counts.mean(axis=1)[0] - counts.mean(axis=1)[1]
    error = np.sqrt(counts.var(axis=1).sum(axis=0) / runs)
    assert np.abs(difference / error).max() < 5.5
    spread = counts.var(axis=1)
    assert abs(spread[0].mean() / spread[1].mean() - 1) < 0.05


def test_a_wrong_name_is_one_that_nobody_holds() -> None:
    held = NullPopulation("few", ("Shop.com", "a"), np.array([0.5, 0.5]))
    row = FoundString("shop.com", True, 0.1, 0.01, 0.08, 0.12, 1e-9, 1e-7)
    assert held.holds(row)
    assert held.holds(replace(row, string="shop", whole=False))
    assert not held.holds(replace(row, string="shop"))
    assert not held.holds(replace(row, string="b", whole=False))


def test_populations_without_a_frequent_string() -> None:
    metric, rng = discover_metric(4.0, small=True), np.random.default_rng(2)
    with pytest.raises(ValueError, match="not one of"):
        null_population("none", metric, rng)
    for kind in KINDS[2:4]:
        one = null_population(kind, metric, rng)
        assert one.kind == kind
        assert one.shares.sum() == pytest.approx(1)
        assert len(one.shares) == len(one.strings)
        assert one.shares.max() < 1e-3 or one.strings == (metric.fallback,)


def test_the_command_counts_wrong_names(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["simulate", "discovery", "--epsilon", "4", "--reports", "9000", "--nulls", "1"]
    words += ["--small", "--seed", "1"]
    kind = ["--kind", "the fallback alone"]
    assert main([*words, *kind, "--markdown"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("| the fallback alone | 4 | 9,000 |")
    assert " of 1 |" in line
    assert main([*words, *kind, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["populations"] == 1
    assert main([*words, "--kind", "none"]) == 2


@pytest.mark.parametrize("epsilon", [1.0, 4.0])
def test_reports_of_rival_groups_are_unbiased(epsilon: float) -> None:
    """One bit set of 1,024: two values differ in two bits. Mean shares of 40 draws, 4.9 errors."""
    rng, noise = np.random.default_rng(6), BitNoise.of(discover_metric(epsilon).params.mechanism)
    q, p = noise.q_star, noise.p_star
    assert epsilon * 0.999 < math.log(q * (1 - p) / (p * (1 - q))) <= epsilon + 1e-9
    keys = np.arange(5, dtype=np.uint64) << np.uint64(50)
    shares = np.array([0.4, 0.3, 0.2, 0.1, 0.0])
    draw = drawer(shares, 64_000, 2, noise, rng)
    found = np.array([draw(keys).fit(keys).shares for _ in range(40)])
    errors = found.std(axis=0, ddof=1) / math.sqrt(40)
    assert np.abs((found.mean(axis=0) - shares) / errors).max() < 4.9
