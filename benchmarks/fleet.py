"""A hundred million simulated reports, encoded one by one and added up; sums of packed bits.

1. `draw_packed_fleet`: each device with its permanent response, each report with fresh noise, on
   all cores, for probabilities of few binary digits and of sixteen; the bar is 60 seconds of two
   cores. A smaller fleet beside numpy, a uniform number a bit and round.
2. Sums of packed bits, compiled (`simulations.populations.packed_sums`) and in numpy
   (`archive.bit_sums`), beside `numpy.unpackbits(...).sum(axis=0)` of the same rows: all at once,
   as one writes it first, and in blocks that stay in the cache, in the smallest type.

Usage: python benchmarks/fleet.py [--reports 100000000] [--rounds 5] [--records FILE] [--small]
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterator

import numpy as np
from _run import Comparison, alternate, run, scaled, seconds
from archive.bit_sums import sum_bits

from rappor_core.params import RapporParams
from simulations.populations.draws import bits_of_value
from simulations.populations.packed_fleet import draw_packed_fleet
from simulations.populations.packed_sums import sum_words
from simulations.populations.populations import exponential_shares

VALUES, SEED, BLOCK = 1_000, 1, 255
CORE_SECONDS = 120.0  # for 1e8 reports: a minute of two cores
NAMES = [f"https://example.org/page/{i}" for i in range(VALUES)]
SHARES = exponential_shares(VALUES, 0.01)
NOISE = {"f=.5 p=.5 q=.75": (0.5, 0.5, 0.75), "f=.3 p=.35 q=.65": (0.3, 0.35, 0.65)}


def params_of(f: float, p: float, q: float) -> RapporParams:
    return RapporParams.rappor(
        num_bits=128, num_hashes=2, num_cohorts=32, prob_f=f, prob_p=p, prob_q=q
    )


def uniform_bits(reports: int, params: RapporParams, rng: np.random.Generator) -> np.ndarray:
    """The plain way: a uniform number for each bit of each round, and a sum for each cohort."""
    counts = np.zeros((params.num_cohorts, params.num_bits), dtype=np.int64)
    m, scale, k = params.mechanism, 1 << 16, params.num_bits
    for cohort in range(params.num_cohorts):
        bits = np.zeros((VALUES, k), dtype=bool)
        for number, name in enumerate(NAMES):
            bits[number, list(bits_of_value(name, number, cohort, params))] = True
        held = bits[rng.choice(VALUES, reports // params.num_cohorts, p=SHARES)]
        kept = rng.random(held.shape) < np.where(held, m.p1 / scale, m.q1 / scale)
        shown = rng.random(held.shape) < np.where(kept, m.p2 / scale, m.q2 / scale)
        counts[cohort] = shown.sum(axis=0)
    return counts


def fleets(reports: int, rounds: int) -> Iterator[Comparison]:
    """A whole fleet by the clock; a smaller one beside numpy."""
    for name, noise in NOISE.items():
        params, rng = params_of(*noise), np.random.default_rng(SEED)
        draw_packed_fleet(NAMES, SHARES, 10_000, params, rng)  # compiles
        start = time.perf_counter()
        used = seconds(lambda p=params: draw_packed_fleet(NAMES, SHARES, reports, p, rng))
        clock = time.perf_counter() - start
        yield Comparison(
            "", f"{reports:,} reports encoded and added up, k=128 {name}, all processors", "s",
            (used,), target=CORE_SECONDS * reports / 1e8,
            note=f"{clock:.1f} s by the clock; the target is 60 s of two cores",
        )  # fmt: skip
        few, many = 64_000, 3_200_000
        times = alternate(
            {"ours": lambda p=params: draw_packed_fleet(NAMES, SHARES, many, p, rng),
             "numpy": lambda p=params: uniform_bits(few, p, rng)}, rounds,
        )  # fmt: skip
        yield Comparison(
            "", f"a million reports encoded and added up, {name}", "s",
            scaled(times["ours"], 1e6 / many), "numpy, a uniform number a bit and round",
            scaled(times["numpy"], 1e6 / few),
        )  # fmt: skip


def in_blocks(rows: np.ndarray) -> np.ndarray:
    """255 reports at a time, whose sums fit a byte."""
    total = np.zeros(8 * rows.shape[1], dtype=np.int64)
    for start in range(0, len(rows), BLOCK):
        bits = np.unpackbits(rows[start : start + BLOCK], axis=1, bitorder="little")
        total += bits.sum(axis=0, dtype=np.uint8)
    return total


def sums(rows: int, rounds: int) -> Iterator[Comparison]:
    """Packed sums, compiled as for the fleet and in numpy as for the archive."""
    packed = np.random.default_rng(SEED).integers(0, 256, (rows, 16), dtype=np.uint8)
    words = packed.view(np.uint64)
    actions = {
        "compiled": lambda: sum_words(words, 128),
        "in numpy alone": lambda: sum_bits(packed, 128),
        "numpy.unpackbits().sum(axis=0)": lambda: np.unpackbits(
            packed, axis=1, bitorder="little"
        ).sum(axis=0),
        "the same in blocks of 255 rows, summed in bytes": lambda: in_blocks(packed),
    }
    assert len({action().tobytes() for action in actions.values()}) == 1
    times = alternate(actions, rounds, {"compiled": 20, "in numpy alone": 5})
    own, rivals = list(actions)[:2], list(actions)[2:]
    for ours in own:
        for rival in rivals:
            yield Comparison(
                "", f"sums of {rows:,} packed reports of 128 bits, {ours}", "ms",
                scaled(times[ours], 1e3), rival, scaled(times[rival], 1e3),
                target=20.0 if (ours, rival) == (own[0], rivals[0]) else None,
            )  # fmt: skip


def measure(chosen: argparse.Namespace) -> Iterator[Comparison]:
    """Both."""
    yield from sums(100_000 if chosen.small else 1_000_000, chosen.rounds)
    yield from fleets(chosen.reports // (50 if chosen.small else 1), chosen.rounds)


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--reports", type=int, default=100_000_000)
    parser.add_argument("--rounds", type=int, default=5)


if __name__ == "__main__":
    run(__doc__, measure, options)
