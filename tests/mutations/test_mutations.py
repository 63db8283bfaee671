"""Break the code on purpose, one guarantee at a time, and see that a test fails for each.

The tree is copied to a temporary directory; nothing is changed in place. One mutation alone:
`python -m pytest -m long tests/mutations -k NAME`.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import pytest

ROOT = Path(__file__).parents[2]
IGNORED = shutil.ignore_patterns(
    ".*", "__pycache__", "build", "dist", "site", "node_modules", "*.sqlite"
)
MAX_SECONDS = 600  # for the tests of one mutation
PASSED, FAILED = 0, 1  # exit codes of pytest


class Mutation(NamedTuple):
    """One guarantee, broken, and the test that must fail. old: exact, once in the file."""

    name: str
    guarantee: str
    file: str
    test: str
    old: str
    new: str


PRIVACY = (
    Mutation(
        "one-shot-rounding", "OUE never promises less than it was asked",
        "rappor_core/mechanism.py", "tests/core/test_symbols.py",
        "q2 = math.ceil(PROBABILITY_SCALE * _sigmoid(-epsilon))",
        "q2 = math.floor(PROBABILITY_SCALE * _sigmoid(-epsilon))",
    ),
    Mutation(
        "symbols-second-rounding", "LOLOHA's second round never promises less than it was asked",
        "rappor_core/mechanism.py", "tests/core/test_symbols.py",
        "q2 = math.ceil(PROBABILITY_SCALE * (1 - keep) / others)",
        "q2 = math.floor(PROBABILITY_SCALE * (1 - keep) / others)",
    ),
    Mutation(
        "one-sided-epsilon", "epsilon of one bit is that of its worse side",
        "rappor_core/privacy.py", "tests/core/test_privacy.py",
        "return max(ones, zeros) if params.scheme.single_bit",
        "return ones if params.scheme.single_bit",
    ),
    Mutation(
        "fallback-not-reserved", "the fallback is memoized before any other value",
        "client_sdk/recording/ledger.py", "tests/client/test_ledger.py",
        "reserved = device.reserved_bits()",
        "reserved: list[int] = []",
    ),
    Mutation(
        "past-values-forgotten", "values from before a withdrawal count against the cap",
        "client_sdk/recording/ledger.py", "tests/client/test_client.py",
        "used = line.past_values + len(entries)",
        "used = len(entries)",
    ),
    Mutation(
        "budget-of-one-metric", "the budget holds over all metrics together",
        "client_sdk/recording/ledger.py", "tests/client/test_ledger.py",
        "return others + committed(line, entries + extra) <=",
        "return committed(line, entries + extra) <=",
    ),
    Mutation(
        "memoized-across-params", "new parameters draw new permanent responses",
        "client_sdk/randomization/metric_encoder.py", "tests/client/test_vectors.py",
        "metric.encode(), bytes.fromhex(params_id))",
        'metric.encode(), bytes.fromhex("00" * 16))',
    ),
    Mutation(
        "one-cohort-for-all", "cohorts of two metrics are independent",
        "client_sdk/randomization/key_derivation.py", "tests/client/test_vectors.py",
        'return draw(secret, b"cohort", metric, num_cohorts)',
        'return draw(secret, b"cohort", "", num_cohorts)',
    ),
    Mutation(
        "symbol-lies-to-itself", "a lie is another symbol, each with the same chance",
        "client_sdk/randomization/metric_encoder.py", "tests/client/test_enumeration.py",
        "return 1 << (other + (other >= symbol))",
        "return 1 << (other + (other > symbol))",
    ),
    Mutation(
        "sent-before-synced", "nothing is sent before it is on the disk",
        "client_sdk/delivery/schedule.py", "tests/client/test_delivery.py",
        "self._state.sync()",
        "pass",
    ),
    Mutation(
        "consent-without-wiping", "withdrawn consent wipes secret, values and queue",
        "client_sdk/lifecycle.py", "tests/client/test_client.py",
        "trouble = self._withdrawal.begin()",
        "trouble = None",
    ),
    Mutation(
        "word-of-a-proxy", "only the collector's own word makes a device drop a batch",
        "client_sdk/delivery/messages.py", "tests/client/test_refusals.py",
        "digest == sha256(body).hexdigest()",
        "True",
    ),
    Mutation(
        "period-reported-twice", "no period of a location is reported twice",
        "client_sdk/location/period_visits.py", "tests/client/test_location.py",
        "if period in self._reported or self._answered_for_life:",
        "if self._answered_for_life:",
    ),
)  # fmt: skip

EXACTLY_ONCE = (
    Mutation(
        "batch-id-in-the-clear", "the database does not hold ids of batches",
        "collector/store/batches.py", "tests/collector/test_nothing_identifies.py",
        "return sha256(_NAME_OF_ID + batch_id).digest()[:_HASH_BYTES]",
        "return batch_id",
    ),
    Mutation(
        "digest-without-key", "a made-up body cannot be compared with the stored digests",
        "collector/store/batches.py", "tests/collector/test_nothing_identifies.py",
        "sha256(_NAME_OF_BODY + batch_id + digest)",
        "sha256(_NAME_OF_BODY + digest)",
    ),
    Mutation(
        "batch-not-remembered", "a batch that is sent again is counted once",
        "collector/domain/batch_writer.py", "tests/collector/test_writing.py",
        "                if verdict.accepted:\n",
        "                if False:\n",
    ),
    Mutation(
        "changed-batch-taken", "the id of a batch does not come with another body",
        "collector/domain/batch_writer.py", "tests/collector/test_writing.py",
        "if bytes(before.digest) != digest:",
        "if False:",
    ),
    Mutation(
        "batch-forgotten-early", "a batch is remembered while one of its days is open",
        "collector/domain/report_validation.py", "tests/collector/test_writing.py",
        "max(verdict.expires, place[1] + entry.metric.accept_days)",
        "max(verdict.expires, place[1])",
    ),
    Mutation(
        "day-accepted-after-closing", "a day that was closed takes no more reports",
        "collector/domain/report_validation.py", "tests/collector/test_closing.py",
        "closed = max(entry.closed_through, closed_by_time(entry, day.today))",
        "closed = closed_by_time(entry, day.today)",
    ),
    Mutation(
        "unsafe-commits-taken", "nothing is acknowledged that PostgreSQL would not keep",
        "rappor_server/database.py", "tests/collector/test_schema_and_backup.py",
        'if fsync == "off":',
        "if False:",
    ),
)  # fmt: skip

FLOORS_AND_ACCESS = (
    Mutation(
        "cohort-floor-dropped", "no cohort of few reports is served",
        "collector/store/blocks.py", "tests/collector/test_disclosure.py",
        " and min(sizes, default=0) >= cohort_floor\n",
        "\n",
    ),
    Mutation(
        "floor-off-by-one", "no block of fewer than min_reports is served",
        "collector/store/blocks.py", "tests/collector/test_disclosure.py",
        "sum(sizes) >= min_reports and",
        "sum(sizes) + 1 >= min_reports and",
    ),
    Mutation(
        "window-cuts-a-block", "no window takes a part of merged days",
        "collector/domain/aggregates.py", "tests/collector/test_disclosure.py",
        "    if cut:\n",
        "    if False:\n",
    ),
    Mutation(
        "key-scope-ignored", "a key is good for its own scope alone",
        "collector/domain/access.py", "tests/collector/test_access.py",
        "if row.scope not in allowed:",
        "if False:",
    ),
)  # fmt: skip

ESTIMATES = (
    Mutation(
        "bias-not-removed", "shares are unbiased",
        "decoder/model/counts.py", "tests/decoder/test_debias.py",
        "(frequencies - noise.p_star) / noise.gap",
        "frequencies / noise.gap",
    ),
    Mutation(
        "repeats-as-new-devices", "a device that reports again is not a new device",
        "decoder/model/noise.py", "tests/decoder/test_noise.py",
        "mechanism += self.repetition * sampling",
        "mechanism += sampling",
    ),
    Mutation(
        "permanent-noise-forgotten", "permanent noise does not average out over repeats",
        "decoder/model/noise.py", "tests/decoder/test_noise.py",
        "return keep * (1 - keep) * (self.show_one - self.show_zero) ** 2",
        "return 0.0 * keep",
    ),
    Mutation(
        "one-sided-interval", "an interval of 95 % takes 1.96 standard errors, not 1.64",
        "decoder/inference/intervals.py", "tests/decoder/test_intervals.py",
        "stdtrit(freedom, (1 - level) / 2)",
        "stdtrit(freedom, 1 - level)",
    ),
    Mutation(
        "one-sided-selected-interval", "an interval of what was selected keeps its level",
        "decoder/inference/intervals.py", "tests/decoder/test_intervals.py",
        "tail, passed = (1 - level) / 2, ",
        "tail, passed = 1 - level, ",
    ),
    Mutation(
        "bonferroni-not-applied", "Bonferroni counts all candidates",
        "decoder/inference/multiple_testing.py", "tests/decoder/test_inference.py",
        "return ranked * total\n",
        "return ranked\n",
    ),
    Mutation(
        "storey-without-one", "Storey's estimate counts one null p-value more than were seen",
        "decoder/inference/multiple_testing.py", "tests/decoder/test_inference.py",
        "(w[p > above].sum() + w.max())",
        "w[p > above].sum()",
    ),
    Mutation(
        "alpha-at-each-level", "what one level of a search spends of alpha, later ones lack",
        "decoder/discovery/search.py", "tests/decoder/test_discovery_level.py",
        "        rest -= part\n",
        "",
    ),
)  # fmt: skip

RELEASES = (
    Mutation(
        "small-share-released", "no share is released whose interval begins below min_low",
        "disclosure/release/policy.py", "tests/disclosure/release/test_build.py",
        "detected & (round_down(low, self.rounding) >= self.min_low)",
        "detected",
    ),
    Mutation(
        "known-too-well", "more is suppressed until no reader knows a hidden share too well",
        "disclosure/release/inference/targets.py", "tests/disclosure/release/test_build.py",
        "        return high - low >= self.width - EXACT",
        "        return high >= low",
    ),
    Mutation(
        "own-release-approved", "another person approves what one proposed",
        "decoder_service/releases/rules.py", "tests/decoder_service/test_releases.py",
        "if mine and not withdraws:",
        "if False:",
    ),
    Mutation(
        "class-below-k", "anonymize makes no class of fewer than k rows",
        "disclosure/anonymize/greedy.py", "tests/disclosure/test_k_anonymity.py",
        "few = self.counts[place] < self.k\n",
        "few = self.counts[place] < self.k - 1\n",
    ),
)  # fmt: skip


MUTATIONS = (*PRIVACY, *EXACTLY_ONCE, *FLOORS_AND_ACCESS, *ESTIMATES, *RELEASES)


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the code and its tests."""
    copy = tmp_path_factory.mktemp("mutations") / "tree"
    shutil.copytree(ROOT, copy, ignore=IGNORED)
    return copy


def run_tests(tree: Path, tests: Iterable[str]) -> subprocess.CompletedProcess[str]:
    """Run tests in a copy, which comes before what is installed, also in child processes."""
    environment = os.environ | {"PYTHONPATH": str(tree), "PYTHONDONTWRITEBYTECODE": "1"}
    options = ["-x", "-q", "-m", "not long", "-p", "no:cacheprovider", "-p", "no:xdist"]
    return subprocess.run(
        [sys.executable, "-m", "pytest", *options, *tests],
        cwd=tree,
        env=environment,
        capture_output=True,
        text=True,
        timeout=MAX_SECONDS,
        check=False,
    )


@pytest.mark.long
def test_the_tests_pass_without_a_mutation(tree: Path) -> None:
    done = run_tests(tree, sorted({mutation.test for mutation in MUTATIONS}))
    assert done.returncode == PASSED, done.stdout[-4_000:]


@pytest.mark.long
@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_a_mutation_is_noticed(mutation: Mutation, tree: Path) -> None:
    path = tree / mutation.file
    before = path.read_text(encoding="utf-8")
    assert before.count(mutation.old) == 1
    path.write_text(before.replace(mutation.old, mutation.new), encoding="utf-8")
    try:
        done = run_tests(tree, [mutation.test])
    finally:
        path.write_text(before, encoding="utf-8")
    assert "ERROR collecting" not in done.stdout, done.stdout[-4_000:]
    assert done.returncode == FAILED, f"no test noticed: {mutation.guarantee}"
