"""What each mutation breaks, where, and which tests must notice."""

from __future__ import annotations

from typing import NamedTuple


class Mutation(NamedTuple):
    """One guarantee, broken.

    name: unique.  guarantee: what no longer holds.  file: below the root of the tree.
    old, new: exact texts; `old` stands in the file once.  tests: of which one must fail.
    """

    name: str
    guarantee: str
    file: str
    old: str
    new: str
    tests: tuple[str, ...]

    def applied(self, text: str) -> str:
        """The file with the mutation. Raises ValueError where it does not fit."""
        if text.count(self.old) != 1:
            raise ValueError(f"{self.name}: {self.old!r} stands {text.count(self.old)} times")
        return text.replace(self.old, self.new)


_MECHANISM = "rappor_core/mechanism.py"
_LEDGER = "client_sdk/recording/ledger.py"
_JUDGE = "collector/domain/report_validation.py"
_WRITER = "collector/domain/batch_writer.py"
_MULTIPLE = "decoder/inference/multiple_testing.py"

CORE = (
    Mutation(
        "symmetric-first-rounding", "L-SUE's first round never promises less than it was asked",
        _MECHANISM,
        "p1 = math.floor(PROBABILITY_SCALE * _sigmoid(epsilon_infinity / 2))",
        "p1 = math.ceil(PROBABILITY_SCALE * _sigmoid(epsilon_infinity / 2))",
        ("tests/core/test_mechanism.py", "tests/core/test_privacy.py"),
    ),
    Mutation(
        "optimised-first-rounding", "L-OSUE's first round never promises less than it was asked",
        _MECHANISM,
        "q1 = math.ceil(PROBABILITY_SCALE * _sigmoid(-epsilon_infinity))",
        "q1 = math.floor(PROBABILITY_SCALE * _sigmoid(-epsilon_infinity))",
        ("tests/core/test_mechanism.py", "tests/core/test_privacy.py"),
    ),
    Mutation(
        "second-rounding", "the second round never promises less than it was asked",
        _MECHANISM,
        "kept = math.floor(PROBABILITY_SCALE * p2)",
        "kept = math.ceil(PROBABILITY_SCALE * p2)",
        ("tests/core/test_mechanism.py", "tests/core/test_privacy.py"),
    ),
    Mutation(
        "symbols-second-rounding", "LOLOHA's second round never promises less than it was asked",
        _MECHANISM,
        "q2 = math.ceil(PROBABILITY_SCALE * (1 - kept) / others)",
        "q2 = math.floor(PROBABILITY_SCALE * (1 - kept) / others)",
        ("tests/core/test_mechanism.py", "tests/core/test_symbols.py"),
    ),
    Mutation(
        "one-shot-rounding", "OUE never promises less than it was asked",
        _MECHANISM,
        "q2 = math.ceil(PROBABILITY_SCALE * _sigmoid(-epsilon))",
        "q2 = math.floor(PROBABILITY_SCALE * _sigmoid(-epsilon))",
        ("tests/core/test_symbols.py",),
    ),
    Mutation(
        "coin-rounded-to-never", "a probability is not rounded to 0 or 1",
        _MECHANISM,
        "if scaled in (0, PROBABILITY_SCALE) and probability not in (0, 1):",
        "if False:",
        ("tests/core/test_mechanism.py",),
    ),
    Mutation(
        "p1-below-q1", "a first round that mostly lies is refused",
        _MECHANISM,
        "if self.p1 < self.q1:",
        "if False:",
        ("tests/core/test_mechanism.py",),
    ),
    Mutation(
        "p-and-q-swapped", "q of the paper is P(S=1) for a permanent 1",
        _MECHANISM,
        'q1=q1, p2=p2, q2=quantise("prob_p", prob_p))',
        'q1=q1, q2=p2, p2=quantise("prob_p", prob_p))',
        ("tests/core/test_mechanism.py", "tests/core/test_params.py"),
    ),
    Mutation(
        "one-sided-epsilon", "epsilon of one bit is that of its worse side",
        "rappor_core/privacy.py",
        "return max(ones, zeros) if single_bit",
        "return ones if single_bit",
        ("tests/core/test_privacy.py",),
    ),
    Mutation(
        "no-normal-form", "composed and decomposed letters are one string",
        "rappor_core/hashing.py",
        'return text if text.isascii() else unicodedata.normalize("NFC", text)',
        "return text",
        ("tests/core/test_hashing.py",),
    ),
    Mutation(
        "md5-cohort-order", "md5 positions are those of google/rappor",
        "rappor_core/hashing.py",
        'cohort.to_bytes(4, "big")',
        'cohort.to_bytes(4, "little")',
        ("tests/core/test_hashing.py",),
    ),
    Mutation(
        "merge-touching-windows", "windows that share a day are not added",
        "rappor_core/aggregate.py",
        "if one.first_day <= other.last_day and other.first_day <= one.last_day:",
        "if one.first_day < other.last_day and other.first_day < one.last_day:",
        ("tests/core/test_aggregate.py",),
    ),
    Mutation(
        "more-ones-than-reports", "a bit is set in no more reports than there are",
        "rappor_core/aggregate.py",
        "not 0 <= min(row) <= max(row) <= total",
        "not 0 <= min(row)",
        ("tests/core/test_aggregate.py",),
    ),
    Mutation(
        "week-from-sunday", "weeks begin on Monday",
        "rappor_core/calendar.py",
        "return (day + EPOCH_ORDINAL - 1) // 7",
        "return (day + EPOCH_ORDINAL) // 7",
        ("tests/client/test_periods.py",),
    ),
    Mutation(
        "duplicate-json-keys", "JSON with a key twice is refused",
        "rappor_core/strict_json.py",
        "if len(document) != len(pairs):",
        "if False:",
        ("tests/core/test_report.py", "tests/core/test_aggregate.py"),
    ),
    Mutation(
        "no-place-for-a-value", "a cap has room for a value beside fallback and no_data",
        "rappor_core/metrics/validation.py",
        "cap <= len(taken) and not all_fit:",
        "cap < len(taken) and not all_fit:",
        ("tests/core/test_metrics.py",),
    ),
    Mutation(
        "chances-of-symbols", "the chances of the symbols add up to 1",
        "rappor_core/encodings/interface.py",
        "if kept + others * lie != PROBABILITY_SCALE:",
        "if False:",
        ("tests/core/test_symbols.py",),
    ),
    Mutation(
        "empty-batch", "a batch without reports is refused",
        "rappor_core/wire/report.py",
        "if not 1 <= count <= max_reports:",
        "if not 0 <= count <= max_reports:",
        ("tests/core/test_report.py", "tests/core/test_report_groups.py"),
    ),
)  # fmt: skip

CLIENT = (
    Mutation(
        "fallback-not-reserved", "the fallback is memoised before any other value",
        _LEDGER,
        "reserved = device.reserved_bits()",
        "reserved: list[int] = []",
        ("tests/client/test_ledger.py",),
    ),
    Mutation(
        "cap-off-by-one", "a device memoises max_memoized_values values at most",
        _LEDGER,
        "if used + number > min(",
        "if used + number - 1 > min(",
        ("tests/client/test_ledger.py",),
    ),
    Mutation(
        "past-values-forgotten", "values from before a withdrawal count against the cap",
        _LEDGER,
        "used = line.past_values + len(entries)",
        "used = len(entries)",
        ("tests/client/test_ledger.py", "tests/client/test_custody.py",
         "tests/client/test_client.py"),
    ),
    Mutation(
        "budget-of-one-metric", "the budget holds over all metrics together",
        _LEDGER,
        "return others + committed(line, entries + extra) <=",
        "return committed(line, entries + extra) <=",
        ("tests/client/test_ledger.py", "tests/client/test_budget.py"),
    ),
    Mutation(
        "weaker-rate", "a new version that reports more often is refused",
        _LEDGER,
        "for name in _BOUNDS if now",
        "for name in _BOUNDS[:-2] if now",
        ("tests/client/test_ledger.py",),
    ),
    Mutation(
        "weaker-window", "a new version that may report twice in a window is refused",
        _LEDGER,
        "for name in _BOUNDS if now",
        "for name in _BOUNDS[:-1] if now",
        ("tests/client/test_location_attacks.py",),
    ),
    Mutation(
        "budget-raised", "a larger declaration does not raise the budget that a device began with",
        "client_sdk/recording/bounds.py",
        "return stored is None or nats < stored",
        "return stored is None or nats != stored",
        ("tests/client/test_budget.py",),
    ),
    Mutation(
        "memoised-across-params", "new parameters draw new permanent responses",
        "client_sdk/randomisation/rounds.py",
        "metric.encode(), bytes.fromhex(params_id))",
        'metric.encode(), bytes.fromhex("00" * 16))',
        ("tests/client/test_vectors.py",),
    ),
    Mutation(
        "one-cohort-for-all", "cohorts of two metrics are independent",
        "client_sdk/randomisation/key_derivation.py",
        'return draw(secret, b"cohort", metric, num_cohorts)',
        'return draw(secret, b"cohort", "", num_cohorts)',
        ("tests/client/test_encoder.py", "tests/client/test_vectors.py"),
    ),
    Mutation(
        "coin-that-always-falls", "a coin of probability 1 falls 1 always",
        "client_sdk/randomisation/randomness.py",
        "-(if_one >> PROBABILITY_BITS)",
        "0",
        ("tests/client/test_randomness.py", "tests/client/test_encoder.py"),
    ),
    Mutation(
        "symbol-lies-to-itself", "a lie is another symbol, each with the same chance",
        "client_sdk/randomisation/rounds.py",
        "return 1 << (other + (other >= own))",
        "return 1 << (other + (other > own))",
        ("tests/client/test_symbols.py",),
    ),
    Mutation(
        "batch-in-order-of-recording", "the order of a batch says nothing of when values came",
        "client_sdk/delivery/messages.py",
        "make_batch(batch_id, sorted(reports, key=_content))",
        "make_batch(batch_id, reports)",
        ("tests/client/test_delivery.py",),
    ),
    Mutation(
        "whole-kept-beside-halves", "a batch that is split is not sent whole again",
        "client_sdk/delivery/queue.py",
        'if database.execute("DELETE FROM batches WHERE id = ?", (batch.number,)).rowcount:',
        "if True:",
        ("tests/client/test_refusals.py",),
    ),
    Mutation(
        "two-reports-in-a-window", "mode `window` sends one report in a window",
        "client_sdk/storage/sqlite.py",
        "if database.execute(NEAR, near).fetchone() is not None:",
        "if False:",
        ("tests/client/test_location_attacks.py::test_days_tell_a_window_from_the_next",),
    ),
    Mutation(
        "sent-before-synced", "nothing is sent before it is on the disk",
        "client_sdk/delivery/queue.py",
        "        self._state.sync()\n",
        "        pass\n",
        ("tests/client/test_delivery.py::test_nothing_is_sent_before_it_is_on_the_disk",),
    ),
    Mutation(
        "import-at-the-end", "a program that ends without close() does not hang",
        "client_sdk/fork_hooks.py",
        "            atexit.register(self._exit)\n",
        "",
        ("tests/public_cases/test_end_of_program.py",),
    ),
    Mutation(
        "path-read-again", "a path means what it meant when it was given",
        "client_sdk/storage/directory.py",
        "os.path.abspath(os.fspath(path))",
        "os.fspath(path)",
        ("tests/public_cases/test_paths.py",),
    ),
    Mutation(
        "consent-without-wiping", "withdrawn consent wipes secret, values and queue",
        "client_sdk/lifecycle.py",
        "trouble = self._withdrawal.begin()",
        "trouble = None",
        ("tests/client/test_client.py",),
    ),
    Mutation(
        "consent-not-asked", "without consent there is no session",
        "client_sdk/client.py",
        "        if not consent:\n            self._life.withdraw",
        "        if False:\n            self._life.withdraw",
        ("tests/client/test_client.py",),
    ),
    Mutation(
        "tracked-all-the-same", "DO_NOT_TRACK wins over consent",
        "client_sdk/client.py",
        "elif do_not_track():",
        "elif False:",
        ("tests/client/test_client.py",),
    ),
    Mutation(
        "key-in-the-clear", "a key does not travel over plain http",
        "client_sdk/setup.py",
        "        check_key_is_hidden(key, collector)",
        "        pass",
        ("tests/client/test_client.py", "tests/client/test_transport.py"),
    ),
    Mutation(
        "word-of-a-proxy", "only the collector's own word makes a device drop a batch",
        "client_sdk/delivery/messages.py",
        "digest == sha256(body).hexdigest()",
        "True",
        ("tests/client/test_refusals.py",),
    ),
    Mutation(
        "fix-from-the-future", "a fix a day ahead of the clock ends no period",
        "client_sdk/location/period_visits.py",
        "if clock is not None and moment.at > clock.at + MOST_AHEAD:",
        "if False:",
        ("tests/client/test_location_upkeep.py::test_a_fix_ahead_of_the_clock_is_counted",),
    ),
    Mutation(
        "period-reported-twice", "no period of a location is reported twice",
        "client_sdk/location/period_visits.py",
        "if period in self._reported or self._answered_for_life:",
        "if self._answered_for_life:",
        ("tests/client/test_location.py::test_a_period_reported_once_is_not_reported_again",),
    ),
)  # fmt: skip

COLLECTOR = (
    Mutation(
        "batch-id-in-the-clear", "the database does not hold ids of batches",
        "collector/store/batches.py",
        "return sha256(_NAME_OF_ID + batch_id).digest()[:_HASH_BYTES]",
        "return batch_id",
        ("tests/attacks/test_memory.py", "tests/collector/test_nothing_identifies.py",
         "tests/collector/test_schema_and_backup.py"),
    ),
    Mutation(
        "digest-without-key", "a made-up body cannot be compared with the stored digests",
        "collector/store/batches.py",
        "sha256(_NAME_OF_BODY + batch_id + digest)",
        "sha256(_NAME_OF_BODY + digest)",
        ("tests/attacks/test_memory.py", "tests/collector/test_nothing_identifies.py",
         "tests/collector/test_schema_and_backup.py"),
    ),
    Mutation(
        "batch-not-remembered", "a batch that is sent again is counted once",
        _WRITER,
        "                if verdict.accepted:\n                    fresh[hashed]",
        "                if False:\n                    fresh[hashed]",
        ("tests/collector/test_writing.py", "tests/collector/test_reports_route.py"),
    ),
    Mutation(
        "changed-batch-taken", "the id of a batch does not come with another body",
        _WRITER,
        "if bytes(before.digest) != digest:",
        "if False:",
        ("tests/collector/test_writing.py", "tests/collector/test_reports_route.py"),
    ),
    Mutation(
        "batch-forgotten-early", "a batch is remembered while one of its days is open",
        _JUDGE,
        "max(verdict.expires, place[1] + entry.metric.accept_days)",
        "max(verdict.expires, place[1])",
        ("tests/collector/test_closing.py", "tests/collector/test_writing.py",
         "tests/collector/test_reports_route.py"),
    ),
    Mutation(
        "day-accepted-after-time", "a day takes no reports when its time is over",
        _JUDGE,
        "if stated <= closed:",
        "if stated < closed:",
        ("tests/collector/test_closing.py", "tests/collector/test_reports_route.py"),
    ),
    Mutation(
        "day-accepted-after-closing", "a day that was closed takes no more reports",
        _JUDGE,
        "closed = max(entry.closed_through, closed_by_time(entry, day.today))",
        "closed = closed_by_time(entry, day.today)",
        ("tests/collector/test_closing.py",),
    ),
    Mutation(
        "day-after-tomorrow", "a day that has not come takes no reports",
        _JUDGE,
        "if day_of(group.day) > day.latest:",
        "if day_of(group.day) > day.latest + 1:",
        ("tests/collector/test_closing.py", "tests/collector/test_reports_route.py"),
    ),
    Mutation(
        "spare-bits", "bits beyond num_bits are refused",
        _JUDGE,
        "                and not bits[-1] >> padding\n",
        "",
        ("tests/collector/test_reports_route.py", "tests/collector/test_hostile.py"),
    ),
    Mutation(
        "cohort-off-by-one", "a cohort is below num_cohorts",
        _JUDGE,
        "                cohort < num_cohorts\n",
        "                cohort <= num_cohorts\n",
        ("tests/collector/test_reports_route.py", "tests/collector/test_hostile.py"),
    ),
    Mutation(
        "raw-rows-refused", "a raw report is kept only if it was counted",
        _JUDGE,
        "zip(group.rows, results, strict=True) if not refusal)",
        "zip(group.rows, results, strict=True))",
        ("tests/collector/test_export.py::test_what_leaves_is_what_came_page_by_page",),
    ),
    Mutation(
        "expired-metric", "a metric takes no reports after its last day",
        _JUDGE,
        "if group.day > entry.metric.expires:",
        "if False:",
        ("tests/collector/test_reports_route.py", "tests/collector/test_closing.py"),
    ),
    Mutation(
        "impossible-weight", "one report shows exactly one symbol, whatever is set",
        "collector/domain/plausibility.py",
        "return WeightRange(1, 1, certain=True)",
        "return WeightRange(1, 1)",
        ("tests/collector/test_plausibility.py",),
    ),
    Mutation(
        "cohort-floor-dropped", "no cohort of few reports is served",
        "collector/store/blocks.py",
        " and min(sizes, default=0) >= floors.min_reports_per_cohort\n",
        "\n",
        ("tests/collector/test_disclosure.py", "tests/collector/test_closing.py"),
    ),
    Mutation(
        "floor-off-by-one", "no block of fewer than min_reports is served",
        "collector/store/blocks.py",
        "sum(sizes) >= floors.min_reports and",
        "sum(sizes) + 1 >= floors.min_reports and",
        (
            "tests/collector/test_disclosure.py::"
            "test_a_block_is_sealed_at_its_floor",
        ),
    ),
    Mutation(
        "window-cuts-a-block", "no window takes a part of merged days",
        "collector/domain/disclosure.py",
        "    if cut:\n",
        "    if False:\n",
        ("tests/collector/test_disclosure.py",),
    ),
    Mutation(
        "restored-days-served", "after a restore no day is served twice with other reports",
        "collector/store/blocks.py",
        "    connection.execute(delete(counters))\n",
        "",
        ("tests/collector/test_schema_and_backup.py", "tests/collector/test_commands.py"),
    ),
    Mutation(
        "key-scope-ignored", "a key is good for its own scope alone",
        "collector/domain/access.py",
        "if row.scope not in allowed:",
        "if False:",
        ("tests/collector/test_access.py",),
    ),
    Mutation(
        "revoked-key-taken", "a key that is revoked is worthless",
        "collector/domain/access.py",
        "for row in load_keys(connection) if row.revoked is None}",
        "for row in load_keys(connection)}",
        ("tests/collector/test_access.py",),
    ),
    Mutation(
        "key-by-id-alone", "the secret part of a key is compared",
        "rappor_server/keys.py",
        "return hmac.compare_digest(hash_secret(secret), bytes(stored))",
        "return True",
        ("tests/collector/test_access.py",),
    ),
    Mutation(
        "unsafe-commits-taken", "nothing is acknowledged that PostgreSQL would not keep",
        "rappor_server/database.py",
        'if value == "off":',
        "if False:",
        ("tests/collector/test_schema_and_backup.py", "tests/decoder_service/test_database.py"),
    ),
    Mutation(
        "ended-session-used", "a session that PostgreSQL ended is not used again",
        "rappor_server/database.py",
        "    if waiting.poll(0):",
        "    if False:",
        ("tests/decoder_service/test_database.py",),
    ),
    Mutation(
        "rate-without-bound", "a sender's rate is bounded",
        "rappor_server/limits.py",
        "(tokens - amount if admitted else tokens, now)",
        "(tokens, now)",
        ("tests/collector/test_limits.py",),
    ),
    Mutation(
        "address-by-address", "one subscriber's IPv6 network is one sender",
        "rappor_server/limits.py",
        "(int(parsed) >> 64 << 64, 64)",
        "(int(parsed), 128)",
        ("tests/collector/test_limits.py",),
    ),
)  # fmt: skip

DECODER = (
    Mutation(
        "bias-not-removed", "shares are unbiased",
        "decoder/model/counts.py",
        "(frequencies - noise.p_star) / noise.gap",
        "frequencies / noise.gap",
        ("tests/decoder/test_debias.py",),
    ),
    Mutation(
        "bonferroni-not-applied", "Bonferroni counts all candidates",
        _MULTIPLE,
        "return ranked * total\n",
        "return ranked\n",
        ("tests/decoder/test_inference.py",),
    ),
    Mutation(
        "other-tested-with-the-cells", "`other` of a map is no cell, and tested by itself",
        "decoder/density/cells.py",
        "reserved=len(self.reserved)",
        "reserved=0",
        ("tests/decoder/test_density_intervals.py",),
    ),
    Mutation(
        "storey-without-one", "Storey's estimate counts one null p-value more than were seen",
        _MULTIPLE,
        "(w[p > STOREY_LAMBDA].sum() + w.max())",
        "w[p > STOREY_LAMBDA].sum()",
        ("tests/decoder/test_inference.py",),
    ),
    Mutation(
        "one-sided-interval", "an interval of 95 % takes 1.96 standard errors, not 1.64",
        "decoder/inference/intervals.py",
        "stdtrit(freedom, (1 - level) / 2)",
        "stdtrit(freedom, 1 - level)",
        ("tests/decoder/test_intervals.py",),
    ),
    Mutation(
        "one-sided-selected-interval", "an interval of what was selected keeps its level",
        "decoder/inference/intervals.py",
        "    tail = (1 - level) / 2\n",
        "    tail = 1 - level\n",
        ("tests/decoder/test_intervals.py", "tests/decoder/test_selected.py"),
    ),
    Mutation(
        "interval-without-law", "an interval reaches as far as a null score strays",
        "decoder/inference/intervals.py",
        "np.abs(law.score(np.array([normal, -normal])))",
        "normal, normal",
        ("tests/decoder/test_intervals.py",),
    ),
    Mutation(
        "interval-against-test", "an interval contains 0 where the test does not tell it from 0",
        "decoder/inference/intervals.py",
        "np.where(estimates > 0, margin, 0.0)",
        "0.0 * margin",
        ("tests/decoder/test_intervals.py",),
    ),
    Mutation(
        "likelier-wrong-than-right", "what is likelier wrong than right is not told from 0",
        "decoder/results/selective_intervals.py",
        "_or_zero(np.where(reaching, 0.0, np.minimum(lows, printed)))",
        "_or_zero(np.minimum(lows, printed))",
        ("tests/decoder/test_selected.py",),
    ),
    Mutation(
        "wrong-strings-forgotten", "what wrong strings miss is taken from what the others may",
        "decoder/results/selective_intervals.py",
        "1 - max(1 - level - wrong, (1 - level) * _LEAST_MISSED)",
        "level",
        ("tests/decoder/test_selected.py",),
    ),
    Mutation(
        "negative-scores-unstandardised", "scores on both sides are in their own null deviation",
        "decoder/estimation/leave_one_out.py",
        "np.abs(z[active]) > WORTH_LEAVING_OUT",
        "z[active] > WORTH_LEAVING_OUT",
        ("tests/statistical/test_decoder_calibration.py",),
    ),
    Mutation(
        "lasso-takes-over-unseen", "an error of the LASSO allows for what others take over",
        "decoder/estimation/lasso.py",
        "error * self._widening(share, error)",
        "error",
        ("tests/statistical/test_decoder_calibration.py::test_lasso_errors_hold_where_shares_shift",),
    ),
    Mutation(
        "lasso-own-share-unlisted", "what is taken out of the data is no unlisted share",
        "decoder/estimation/lasso.py",
        "max(share - taken, 0.0) ** 2",
        "max(share, 0.0) ** 2",
        ("tests/statistical/test_decoder_calibration.py::test_lasso_errors_miss_a_removed_unlisted_share",),
    ),
    Mutation(
        "lasso-response-unseen", "an estimate of what is not selected follows its share in part",
        "decoder/estimation/lasso.py",
        "np.clip(np.mean(parts), _LEAST_RESPONSE, 1.0)",
        "1.0",
        ("tests/statistical/test_decoder_calibration.py::test_lasso_errors_hold_where_shares_shift",),
    ),
    Mutation(
        "one-sided-bit-interval", "the score interval of one bit keeps its level",
        "decoder/estimation/one_bit.py",
        "ndtri((1 - level) / 2)",
        "ndtri(1 - level)",
        ("tests/decoder/test_direct.py",),
    ),
    Mutation(
        "repeats-as-new-devices", "a device that reports again is not a new device",
        "decoder/model/noise.py",
        "mechanism += self.repetition * sampling",
        "mechanism += sampling",
        ("tests/decoder/test_noise.py",),
    ),
    Mutation(
        "permanent-noise-forgotten", "permanent noise does not average out over repeats",
        "decoder/model/noise.py",
        "return kept * (1 - kept) * (self.show_one - self.show_zero) ** 2",
        "return 0.0 * kept",
        ("tests/decoder/test_noise.py",),
    ),
    Mutation(
        "symbols-as-bits", "the symbols of a report exclude each other",
        "decoder/model/noise.py",
        "return np.asarray(-(shown + (repetition - 1) * kept) / self.gap**2)",
        "return np.asarray(-(shown + repetition * kept) / self.gap**2)",
        ("tests/decoder/test_noise.py",),
    ),
    Mutation(
        "movers-ignored", "devices that moved add their permanent noise to a change",
        "decoder/comparison/cell_contrasts.py",
        "for noise in np.geomspace(1 - repeated, loudest, _NOISES) if repeated > 0 else (1.0,):",
        "for noise in (1 - repeated,):",
        ("tests/statistical/test_change_of_maps.py::test_the_level_holds_where_every_device_moves",),
    ),
    Mutation(
        "simplex-first-excess", "the projection on the simplex is the nearest point",
        "decoder/numerics/simplex.py",
        "np.flatnonzero(ordered > excess)[-1]",
        "np.flatnonzero(ordered > excess)[0]",
        ("tests/decoder/test_maps.py",),
    ),
    Mutation(
        "prior-pulls-other", "a reserved value is free, whatever the strength of the field",
        "decoder/density/field_prior.py",
        "own[-self.reserved :] = RESERVED_PRECISION",
        "own[-self.reserved :] = 10.0",
        ("tests/decoder/test_free_other.py",),
    ),
    Mutation(
        "reserved-as-independent", "shares of two reserved values are estimated together",
        "decoder/density/field_misfit.py",
        "information[i, j] += float(toward[i] @ (weight * toward[j]))",
        "information[i, j] += (i == j) * float(toward[i] @ (weight * toward[j]))",
        ("tests/decoder/test_reserved_values.py",),
    ),
    Mutation(
        "no-data-as-other", "a slot without a fix is `no_data` where the metric declares it",
        "client_sdk/location/period_visits.py",
        "return self._metric.no_data or OTHER",
        "return OTHER",
        ("tests/client/test_location_no_data.py",),
    ),
    Mutation(
        "no-data-without-meaning", "`no_data` of a location changes params_id",
        "rappor_core/metrics/metric.py",
        'meaning["no_data"] = self.no_data',
        "pass",
        ("tests/core/test_location_no_data.py",),
    ),
    Mutation(
        "odd-cohorts-uncorrected", "cohorts are called odd one time in 1,000, over all of them",
        "decoder/results/warnings.py",
        "ndtri(ALARM / max(len(cohort_z), 1))",
        "ndtri(ALARM)",
        ("tests/decoder/test_odd_settings.py",),
    ),
    Mutation(
        "sum-without-chance", "shares that sum to more than 1 by chance are no alarm",
        "decoder/results/warnings.py",
        "max(SUM_TOO_LARGE, 1 + by_chance)",
        "SUM_TOO_LARGE",
        ("tests/decoder/test_pipeline.py",),
    ),
    Mutation(
        "forged-symbols-averaged", "a forger shows the symbol that moves an estimate most",
        "decoder/inference/poisoning.py",
        "unshown + steps.max(axis=1)",
        "unshown + steps.mean(axis=1)",
        ("tests/decoder/test_poisoning.py",),
    ),
    Mutation(
        "holes-filled", "a hole in a polygon is not inside it",
        "decoder/density/regions.py",
        "return crossings % 2 == 1",
        "return crossings > 0",
        ("tests/core/test_grid_region.py",),
    ),
)  # fmt: skip

ABOVE = (
    Mutation(
        "no-dates-of-arrival", "a late answer is matched with when apps ran",
        "privacy_audit/linkage_by_life.py",
        'if known != "changes":  # who knows when the app ran',
        "if False:",
        ("tests/privacy_audit/test_linkage_enumerated.py",),
    ),
    Mutation(
        "a-report-every-day", "days without a report are seen",
        "privacy_audit/linkage_by_life.py",
        "    if dates_are_reported(metric):\n        used",
        "    if False:\n        used",
        ("tests/privacy_audit/test_linkage_by_life.py",),
    ),
    Mutation(
        "attack-across-groups", "the linkage attack uses what reports show for certain",
        "privacy_audit/location_attacks.py",
        "        score[group[:, None] != group] = -np.inf\n",
        "        pass\n",
        ("tests/attacks/test_batch_linkage.py", "tests/simulations/test_location.py"),
    ),
    Mutation(
        "noise-of-zeros-left-out", "drawn aggregates hold the noise of bits that are not set",
        "simulations/populations/draws.py",
        "rng.binomial(others, params.p_star)",
        "rng.binomial(others, 0.0)",
        ("tests/simulations/test_paper.py", "tests/simulations/test_populations.py"),
    ),
    Mutation(
        "window-without-days", "a file without days has no place in a series",
        "decoder/sources/windows.py",
        "if aggregate.first_day is None:",
        "if False:",
        ("tests/decoder/test_series_windows.py",),
    ),
    Mutation(
        "weakened-unasked", "`rappor metrics push` weakens privacy only where asked to",
        "rappor_cli/metrics.py",
        'query={"weaken": "true" if weaken else None,',
        'query={"weaken": "true",',
        ("tests/collector/test_operators_words.py",),
    ),
    Mutation(
        "weakened-unasked-offline", "the same, on the database itself",
        "rappor_cli/metrics.py",
        "                weaken=weaken,\n",
        "                weaken=True,\n",
        ("tests/collector/test_commands.py",),
    ),
)  # fmt: skip

NUMBERS = (
    Mutation(
        "edge-not-included", "a number at an edge is at or above it",
        "rappor_core/metrics/number.py",
        "return bisect_right(self.thresholds(",
        "from bisect import bisect_left\n\n        return bisect_left(self.thresholds(",
        ("tests/core/test_number_metric.py",),
    ),
    Mutation(
        "silent-without-data", "a period without data is reported, too",
        "client_sdk/numbers.py",
        "if self._is_due(name, period):\n                self._send(",
        "if self._is_due(name, period) and collected.kept:\n                self._send(",
        ("tests/client/test_numbers.py",),
    ),
    Mutation(
        "numbers-in-memory", "a number is in the state when `record` returns",
        "client_sdk/numbers.py",
        "                self._state.put_note(NUMBERS + name, collected.to_json())\n",
        "                if closed:\n                    "
        "self._state.put_note(NUMBERS + name, collected.to_json())\n",
        ("tests/client/test_numbers.py",),
    ),
    Mutation(
        "repeats-not-measured", "repeated answers widen the intervals of a pool",
        "decoder/numbers/survival.py",
        "rates, kappa, freedom = plain, max(1.0, measured[0]), measured[1]",
        "rates, kappa, freedom = plain, 1.0, math.inf",
        ("tests/statistical/test_number_coverage.py",),
    ),
    Mutation(
        "lower-neighbours-alone", "the lies of all higher symbols are taken off a share",
        "decoder/numbers/survival.py",
        "offset[question] = (len(cuts) + 1 - u) * params.p_star",
        "offset[question] = params.p_star",
        ("tests/decoder/test_numbers.py",),
    ),
)  # fmt: skip

_PARTITIONS = "collector/store/batch_partitions.py"
_BUILD = "disclosure/release/build.py"

FILES_AND_SERVERS = (
    Mutation(
        "file-written-in-place", "a write that fails leaves the file that was there",
        "rappor_core/whole_files.py",
        "            yield part\n            part.replace(real)\n",
        "            yield real\n",
        ("tests/core/test_whole_files.py",),
    ),
    Mutation(
        "state-read-piecemeal", "a state is checked in one snapshot, whatever others write",
        "client_sdk/storage/directory.py",
        "with reading(self.state_path), state.snapshot():  # another process may write",
        "with reading(self.state_path):",
        ("tests/client/test_custody.py",),
    ),
    Mutation(
        "batch-outlives-its-partition", "no partition is dropped before its batches expire",
        _PARTITIONS,
        "if not rows or rows[0][1] is None or rows[0].expires < expires:",
        "if not rows or rows[0][1] is None:",
        ("tests/collector/test_batch_partitions.py",),
    ),
    Mutation(
        "batches-not-prolonged", "a longer accept_days keeps what was counted known for longer",
        _PARTITIONS,
        "values(expires=batch_partitions.c.expires + days)",
        "values(expires=batch_partitions.c.expires)",
        ("tests/collector/test_writing.py",),
    ),
    Mutation(
        "rate-of-one-process", "what one process took counts against all",
        "collector/store/rate_limits.py",
        "THEN greatest(r.full_at - {_NOW}, 0) ELSE",
        "THEN 0 ELSE",
        ("tests/collector/test_shared_limits.py",),
    ),
    Mutation(
        "address-to-be-tried", "a shared limit holds no hash that addresses can be tried against",
        "rappor_server/limits.py",
        "blake2b(hour + name.encode(), key=self._secret, digest_size=_HASH_BYTES)",
        "blake2b(hour + name.encode(), digest_size=_HASH_BYTES)",
        ("tests/collector/test_shared_limits.py",),
    ),
)  # fmt: skip

RELEASES = (
    Mutation(
        "own-release-approved", "another person approves what one proposed",
        "decoder_service/releases/decisions.py",
        "if mine and state != ReleaseState.WITHDRAWN:",
        "if False:",
        ("tests/decoder_service/test_releases.py",),
    ),
    Mutation(
        "own-release-in-the-database", "the statement that approves asks again who proposed",
        "decoder_service/releases/rows.py",
        "allowed = mine if state == ReleaseState.WITHDRAWN else ~mine",
        "allowed = mine | ~mine",
        ("tests/decoder_service/test_releases.py",),
    ),
    Mutation(
        "small-share-released", "no share is released whose interval begins below min_low",
        "disclosure/release/policy.py",
        "detected & (round_down(low, self.rounding) >= self.min_low)",
        "detected",
        (
            "tests/disclosure/release/test_build.py",
            "tests/disclosure/test_decoded_rows.py",
        ),
    ),
    Mutation(
        "few-reports-released", "no table of fewer than min_reports is released",
        _BUILD,
        "if not policy.has_enough(table.num_reports) and table.key not in known.tables",
        "if False",
        ("tests/disclosure/release/test_build.py",),
    ),
    Mutation(
        "known-too-well", "more is suppressed until no reader knows a hidden share too well",
        "disclosure/release/inference/targets.py",
        "        return high - low >= self.width - EXACT",
        "        return high >= low",
        ("tests/disclosure/release/test_build.py", "tests/disclosure/release/test_inference.py"),
    ),
    Mutation(
        "chain-with-a-gap", "an earlier release is given with all that it was built on",
        "disclosure/release/earlier.py",
        "            if digest not in known:\n",
        "            if not known:\n",
        ("tests/disclosure/release/test_files.py",),
    ),
)  # fmt: skip

SECRETS_AND_LEVELS = (
    Mutation(
        "one-reserved-value", "`no_data` of a location is a value of its own",
        "rappor_core/metrics/location.py",
        "return RESERVED[:1] if no_data is None else RESERVED",
        "return RESERVED[:1]",
        ("tests/core/test_location_no_data.py",),
    ),
    Mutation(
        "alpha-at-each-level", "what one level of a search spends of alpha, later ones lack",
        "decoder/discovery/multiplicity.py",
        "        left -= part\n",
        "",
        ("tests/decoder/test_discovery_level.py",),
    ),
    Mutation(
        "jitter-known-to-all", "the threshold of a jittered number is a secret of the device",
        "client_sdk/randomisation/key_derivation.py",
        'derive(secret, b"jitter",',
        'derive(bytes(32), b"jitter",',
        ("tests/client/test_numbers.py",),
    ),
    Mutation(
        "jitter-left-out", "a device compares with its own threshold, not with the edge",
        "client_sdk/randomisation/encoder.py",
        "jitter_of(secret, self.line, self.params_id) if jittered else 0.0",
        "0.0 * jittered",
        ("tests/client/test_numbers.py", "tests/client/test_number_vectors.py"),
    ),
    Mutation(
        "class-below-k", "anonymise makes no class of fewer than k rows",
        "disclosure/anonymize/anonymise.py",
        "if self.counts[place] < self.k:",
        "if self.counts[place] < self.k - 1:",
        ("tests/disclosure/test_k_anonymity.py",),
    ),
    Mutation(
        "plan-against-the-review", "a plan is none that the review of its file warns of",
        "metric_design/design.py",
        "if floor_rank(entry[2]) < 2 and _objection(table, request) is None:",
        "if floor_rank(entry[2]) < 2:",
        ("tests/cli/test_plan_and_check.py",),
    ),
    Mutation(
        "kind-plan-against-the-review", "no plan of any kind is one that the review warns of",
        "metric_design/solve_plan.py",
        "            if told is None:\n",
        "            if True:\n",
        ("tests/cli/test_plan_kinds.py",),
    ),
    Mutation(
        "warned-mode-recommended", "no mode is recommended that the whole check warns of",
        "metric_design/solve_plan.py",
        "if decided or warned[id(one)] is None), None)",
        "if decided or one), None)",
        ("tests/cli/test_plan_kinds.py",),
    ),
)  # fmt: skip

MUTATIONS = (
    *CORE, *CLIENT, *COLLECTOR, *DECODER, *ABOVE, *NUMBERS,
    *FILES_AND_SERVERS, *RELEASES, *SECRETS_AND_LEVELS,
)  # fmt: skip
