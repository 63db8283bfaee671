"""The comparison in a small form: ours first, nothing false, and what the statement counts."""

from __future__ import annotations

import numpy as np
import pytest

from rappor_cli.main import main
from simulations.experiments.discovery import (
    OURS,
    compare,
    discover_metric,
    drawn_strings,
)
from simulations.experiments.discovery_rivals import RIVALS, block_number, block_text, blocks_of


def test_blocks_come_back() -> None:
    assert blocks_of("ab.de")[:3] == ["ab.", "de ", "   "]
    for block in ("aaa", "z9_", "ab ", "-. "):
        assert block_text(block_number(block)) == block
    assert max(map(block_number, ("   ", "___"))) < 2**16


@pytest.mark.long
def test_ours_finds_most_beside_the_rivals() -> None:
    """One population at epsilon 4 and 400,000 devices; the seed is fixed."""
    rng = np.random.default_rng(17)
    strings = drawn_strings(2_000, rng)
    rows = compare(strings, [(4.0, 400_000)], 1, rng)
    found = {row.method: row.runs[0] for row in rows}
    assert set(found) == {OURS, *RIVALS}
    ours = found.pop(OURS)
    assert ours.found > max(run.found for run in found.values()) > 5
    assert ours.first[0] == 10
    assert sum(ours.covered) >= 0.8 * len(ours.covered)


def test_the_metric_is_that_of_the_file() -> None:
    metric = discover_metric(4.0)
    assert metric.params.report_bytes == 128
    assert metric.num_values is None


def test_the_command_prints_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    words = ["--epsilon", "4", "--reports", "20000", "--runs", "1", "--no-rivals", "--seed", "1"]
    assert main(["simulate", "discovery", *words, "--markdown"]) == 0
    line = capsys.readouterr().out.splitlines()[-1]
    assert line.startswith("| 4 | 20,000 | coded prefixes |")
