"""Faults planted in the client, one at a time: `rappor audit` must find each of them."""

from typing import NamedTuple

METRICS = """
[metrics.homepage]
kind = "string"
description = "Home page"
owner = "web@example.org"
expires = 2027-06-30
num_bits = 128
num_hashes = 2
num_cohorts = 16
prob_f = 0.5
prob_p = 0.5
prob_q = 0.75
max_memoized_values = 4
fallback = "other"
no_data = "none"
"""
PLACES = """
[metrics.place]
kind = "location"
description = "The usual place of each part of the day"
owner = "maps@example.org"
expires = 2027-06-30
grid = "square"
box = [0, 0, 10, 10]
rows = 10
columns = 10
levels = [0]
slots = ["night 22-6", "day 6-22"]
mode = "memo"
num_bits = 16
num_cohorts = 4
mechanism = "l-osue"
epsilon_infinity = 2.0
epsilon_one = 1.0
max_memoized_values = 3
"""
_DECLARED = """
description = "a test"
owner = "web@example.org"
expires = 2027-06-30
"""
MOVED = f"""
[metrics.minutes]
kind = "number"{_DECLARED}unit = "min"
of_period = "sum"
period = "day"
edges = {{ scale = "linear", from = 0, to = 240, bins = 4 }}
ask = "mean"
none = "zero"
mode = "memo"
num_cohorts = 10
epsilon_infinity = 2.0
epsilon_one = 1.8
"""
PAIRS = f"""
[metrics.engine_theme]
kind = "pair"{_DECLARED}of = ["engine", "theme"]
values.engine = ["a", "b"]
values.theme = ["light", "dark", "system"]
max_memoized_values = 3
fallback = "b | system"
epsilon_infinity = 2.0
epsilon_one = 1.0
"""
STRINGS = f"""
[metrics.extension]
kind = "discover"{_DECLARED}num_bits = 64
num_cohorts = 20
max_memoized_values = 2
max_reports = 1
fallback = "other"
epsilon_infinity = 2.0
"""
TWO_STRINGS = f"""{METRICS}
[metrics.engine]
kind = "string"{_DECLARED}num_bits = 16
num_hashes = 1
num_cohorts = 16
prob_f = 0.5
prob_p = 0.25
prob_q = 0.75
max_memoized_values = 3
fallback = "other"
"""
APP_DEVICES = 8  # of each group, in the part `app`
CLIENT = "client"  # a test of tests/client


PART_OF = {
    "freshness": ("equal only by chance",),
    "answers": ("each report is the answer", "a report for each period", "answers of the kind"),
    "derivations": ("round has its", "another process", "derivations", "two metrics",
                    "of two values", "two sets", "values set the bits", "one cohort"),
    "device": ("device: 7 reports", "a value or", "values past", "reports in a life"),
}  # fmt: skip


class Fault(NamedTuple):
    """What a client does wrong.

    name: unique.  file: below the root.  old, new: exact texts; `old` occurs in the file once.
    seen_by: a part of the name of a check that must fail, or the test of tests/client that must.
    metrics: what is audited.
    """

    name: str
    file: str
    old: str
    new: str
    seen_by: str
    metrics: str = METRICS

    @property
    def part(self) -> str:
        """The part of the audit that has the check, or `CLIENT`."""
        if self.seen_by.startswith("tests/"):
            return CLIENT
        parts = (part for part, texts in PART_OF.items() if any(x in self.seen_by for x in texts))
        return next(parts, "encoder")


_ROUNDS = "client_sdk/randomization/metric_encoder.py"
_COINS = "client_sdk/randomization/metric_encoder.py"
_KEYS = "client_sdk/randomization/key_derivation.py"
_DEVICE = "client_sdk/randomization/metric_encoder.py"
_LEDGER = "client_sdk/recording/ledger.py"
_RECORDER = "client_sdk/recording/recorder.py"
_QUEUED = "        bits = encoder.value_bits(value) if bits is None else bits"  # a line of it
_ENCODED = "        report_bits = encoder.report_bits(sent)"  # another line
_SOURCE = "            source = self._state.source("
_NUMBERS = "client_sdk/numbers.py"
_FLOWS = "client_sdk/location/flow_visits.py"
_QUEUE = "client_sdk/delivery/queue.py"
_BATCHES = "client_sdk/delivery/messages.py"
_SENT = "return self._instantaneous.__call__(permanent_bits).to_bytes"

_PERMANENT = "return toss(bits, shake_256(keyed).digest(self._num_bytes))"
_FRESH = "return toss(permanent_bits, randomness(self._num_bytes))"
_FIRST = "coins = _coins(mechanism.p1, mechanism.q1, num_bits, symbol)"
_SECOND = "coins = _coins(mechanism.p2, mechanism.q2, num_bits, symbol)"
_FITS = "if used + number > min(metric.max_permanent_responses, self._level.max_values):"

FAULTS = (
    Fault("never-clears-a-bit", _ROUNDS, _PERMANENT, "return bits | " + _PERMANENT[7:],
          "the first round has its declared chances"),
    Fault("no-permanent-response", _ROUNDS, _PERMANENT, "return bits",
          "the first round has its declared chances"),
    Fault("no-fresh-noise", _ROUNDS, _FRESH, "return permanent_bits",
          "the second round has its declared chances"),
    Fault("permanent-response-redrawn", _ROUNDS,
          "keyed = self._prefix + bits",
          "keyed = __import__('os').urandom(8) + self._prefix + bits",
          "7 reports of a device share one permanent response"),
    Fault("permanent-response-of-the-process", _ROUNDS,
          "keyed = self._prefix + bits",
          "salt = globals().setdefault('_SALT', __import__('os').urandom(8))\n"
          "        keyed = salt + self._prefix + bits",
          "same in another process"),
    Fault("p-and-q-swapped", _ROUNDS, _SECOND,
          "coins = _coins(mechanism.q2, mechanism.p2, num_bits, symbol)",
          "q* of each bit"),
    Fault("f-ten-per-cent-low", _ROUNDS, _FIRST,
          "coins = _coins(mechanism.p1 + mechanism.q1 // 10, mechanism.q1 - mechanism.q1 // 10, "
          "num_bits, symbol)",
          "p* of each bit"),
    Fault("f-ten-per-cent-high", _ROUNDS, _FIRST,
          "coins = _coins(mechanism.p1 - mechanism.q1 // 10, mechanism.q1 + mechanism.q1 // 10, "
          "num_bits, symbol)",
          "p* of each bit"),
    Fault("p-a-little-off", _ROUNDS, _SECOND,
          "coins = _coins(mechanism.p2, mechanism.q2 - (not symbol), num_bits, symbol)",
          "tests/client/test_enumeration.py::test_epsilon_of_small_filters_is_the_declared_one"),
    Fault("last-digits-of-coins-lost", _COINS,
          "for place in range(zeros, PROBABILITY_BITS)",
          "for place in range(max(zeros, 8), PROBABILITY_BITS)",
          "tests/client/test_enumeration.py::test_coins_fall_exactly_as_declared"),
    Fault("bytes-used-twice", _ROUNDS, _FRESH,
          "half = self._randomness(self._num_bytes // 2)\n"
          "        return self._toss(permanent_bits, half[:8] + half[:8] + half[8:] + half[8:])",
          "the noise of two bits is independent"),
    Fault("upper-bits-without-fresh-noise", _ROUNDS, _FRESH,
          "low = self._toss(permanent_bits, self._randomness(self._num_bytes))\n"
          "        return (low & 0xFFFFFFFF) | (permanent_bits >> 32 << 32)",
          "p* of each bit"),
    Fault("one-report-in-fifty-bare", _ROUNDS, _PERMANENT,
          "return bits if self._prefix[45] < 5 else " + _PERMANENT[7:],
          "the first round has its declared chances"),
    Fault("cohort-from-the-value", _DEVICE,
          "bits: int = self._bits_of[value]",
          "self.cohort = len(str(value)) * 7 % 16 if value == 'audit-000' else "
          "sum(str(value).encode()) % 16\n        bits: int = self._bits_of[value]",
          "one cohort for all values"),
    Fault("cohorts-of-half-the-range", _KEYS,
          "return (word * choices) >> 64", "return (word * choices) >> 65",
          "cohorts of the derivations are uniform"),
    Fault("secret-reused-across-metrics", _ROUNDS,
          'b"permanent", metric.encode(), bytes', 'b"permanent", b"", bytes',
          "permanent responses of two metrics are independent"),
    Fault("cohort-reused-across-metrics", _KEYS,
          'draw(secret, b"cohort", metric,', 'draw(secret, b"cohort", "",',
          "cohorts of two metrics are independent"),
    Fault("one-pad-for-all-values", _ROUNDS,
          'keyed = self._prefix + bits.to_bytes(self._bits_bytes, "little")',
          "keyed = self._prefix + bytes(self._bits_bytes)",
          "permanent responses of two values are independent"),
    Fault("one-pad-for-all-parameters", _ROUNDS,
          "bytes.fromhex(params_id))\n", 'b"")\n',
          "under two sets of parameters"),
    Fault("raises-now-and-then", _ROUNDS, _FRESH,
          "drawn = self._randomness(self._num_bytes)\n"
          "        if drawn[0] == 0:\n"
          "            raise OSError('no randomness')\n"
          "        return self._toss(permanent_bits, drawn)",
          "answers without an error"),
    Fault("seeded-randomness", _KEYS,
          "return os.urandom(num_bytes)",
          "import random\n    return random.Random(7).randbytes(num_bytes)",
          "devices draw independent noise"),
    Fault("one-secret-for-all-installations", _KEYS,
          "return randomness(SECRET_BYTES)", "return bytes(range(32))",
          "tests/client/test_conduct.py::test_a_secret_is_32_bytes_of_the_system"),
    Fault("batch-id-of-the-device", _QUEUE,
          "batch_id = self._randomness(BATCH_ID_BYTES)",
          "own = self._state.identity().secret or b''\n"
          "        batch_id = (own[:14] + reports[0].metric.encode())[:16]",
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("fallback-bare", _RECORDER,
          _ENCODED,
          _ENCODED + " if encoder.metric.fallback is None or sent != "
          'encoder.fallback_bits() else sent.to_bytes(16, "little")',
          "a value or the fallback"),
    Fault("cap-off-by-one", _LEDGER, _FITS, _FITS.replace("min(", "1 + min("),
          "values past the cap"),
    Fault("no-cap", _LEDGER, _FITS, "if False:", "values past the cap"),
    Fault("silence-past-the-cap", _LEDGER,
          'return Decision(device.fallback_bits(), "past_cap")',
          'return Decision(None, "past_cap")',
          "values past the cap"),
    Fault("a-report-too-many", "client_sdk/storage/sqlite.py",
          "counts = [(name, period, step, most)]", "counts = [(name, period, step, most + 1)]",
          "reports in a life"),
    Fault("no-data-is-silence", _RECORDER,
          "for period in range(first, present):", "for period in range(0):",
          "tests/client/test_client.py::test_a_period_without_data_is_reported_at_start"),
    Fault("no-data-bare", _RECORDER,
          _ENCODED,
          _ENCODED + " if encoder.metric.no_data is None or sent != "
          'encoder.value_bits(encoder.metric.no_data) else sent.to_bytes(16, "little")',
          "tests/client/test_ledger.py::test_reports_of_silent_periods_have_noise"),
    Fault("places-bare", _DEVICE,
          _SENT,
          "return (bloom_bits if self.metric.location else self._instantaneous(permanent_bits))"
          ".to_bytes",
          "q* of each bit", PLACES),
    Fault("places-reported-once-a-slot-too-many", "client_sdk/location/recorder.py",
          "outcome = self._recorder.record(name, value, float(day * SECONDS_A_DAY))",
          "outcome = self._recorder.record(name, value, float(day * SECONDS_A_DAY))\n"
          "        self._recorder.record(name, value, float((day - 9) * SECONDS_A_DAY))",
          "tests/client/test_location.py::test_a_client_takes_fixes_and_leaks_none"),
    Fault("cut-drawn-again", _KEYS,
          'word = derive(secret, b"jitter", metric.encode(), bytes.fromhex(params_id), length=8)',
          "word = __import__('os').urandom(8)",
          "tests/client/test_numbers.py::test_the_jitter_is_uniform_constant_and_keyed"),
    Fault("cut-from-the-value", _DEVICE,
          "return scheme.jittered_bits(self.metric, value, self.cohort, self._jitter)",
          "return scheme.jittered_bits(self.metric, value, self.cohort,\n"
          "                hash((value, self._jitter)) % 997 / 997)",
          "tests/client/test_numbers.py::test_a_device_keeps_its_cut_over_periods"),
    Fault("cut-in-the-lower-half", _KEYS, "* 2.0**-53", "* 2.0**-54",
          "tests/client/test_numbers.py::test_the_jitter_is_uniform_constant_and_keyed"),
    Fault("cut-of-the-period", _NUMBERS,
          "                self._send(name, collected.bits(), last_day(metric.period, period))",
          "                shift = self._secret[0] / 256 + period * .618\n"
          "                collected._device._jitter = shift % 1\n"
          "                self._send(name, collected.bits(), last_day(metric.period, period))",
          "tests/client/test_numbers.py::test_a_device_keeps_its_cut_over_periods"),
    Fault("numbers-bare", _DEVICE,
          _SENT,
          "return (bloom_bits if self.metric.rules.collected else self._instantaneous("
          "permanent_bits)).to_bytes",
          "each symbol with its declared chance", MOVED),
    Fault("silence-in-place-of-no-data", _NUMBERS,
          "            if self._is_due(name, period):\n                self._send",
          "            if collected.kept and self._is_due(name, period):\n"
          "                self._send",
          "tests/client/test_number_vectors.py::test_lives_by_the_text"),
    Fault("one-answer-given-again", _RECORDER,
          "                self.encoder.line,\n                metric.max_reports,\n",
          "                self.encoder.line,\n                None,\n",
          "tests/client/test_number_vectors.py::test_lives_by_the_text"),
    Fault("one-answer-in-the-first-period", _NUMBERS,
          'name: draw(self._secret, b"phase", name, metric.details.spread)', "name: 0",
          "tests/client/test_number_vectors.py::test_lives_by_the_text"),
    Fault("one-response-for-all-pairs", _ROUNDS,
          'keyed = self._prefix + bits.to_bytes(self._bits_bytes, "little")',
          "keyed = self._prefix + bytes(self._bits_bytes)",
          "permanent responses of two values are independent", PAIRS),
    Fault("no-cap-of-pairs", _LEDGER, _FITS, "if False:", "values past the cap", PAIRS),
    Fault("group-from-the-value", _DEVICE,
          "bits: int = self._bits_of[value]",
          "self.cohort = self.cohort % 4 + 4 * (sum(str(value).encode()) % 5)\n"
          "        bits: int = self._bits_of[value]",
          "one cohort for all values", STRINGS),
    Fault("prefix-without-noise", _ROUNDS, _PERMANENT, "return bits | " + _PERMANENT[7:],
          "the first round has its declared chances", STRINGS),
    Fault("whole-string-in-every-group", "rappor_core/encodings.py",
          "key = groups.key(groups.prefix(data, group), group)", "key = data",
          "values set the bits", STRINGS),
    Fault("one-report-in-five-hundred-bare", _DEVICE, _SENT,
          "rare = int.from_bytes(__import__('os').urandom(2), 'big') < 131\n"
          "        return (bloom_bits if rare else self._instantaneous(permanent_bits)).to_bytes",
          "no report has too few or too many ones"),
    Fault("permanent-response-of-the-quarter", _RECORDER,
          _ENCODED,
          "        prefix = encoder._permanent._prefix.split(b'quarter')[0]\n"
          "        encoder._permanent._prefix = prefix + b'quarter %d' % (day // 91)\n"
          "        encoder._permanent_of.clear()\n" + _ENCODED,
          "device: 7 reports of a device share one permanent response",
          METRICS.replace('no_data = "none"\n', "")),
    Fault("cap-of-each-version", _LEDGER,
          "        entries = self._state.entries(device.line)\n        memoized",
          "        entries = [one for one in self._state.entries(device.line)\n"
          "                   if one.params == json.dumps(device.metric.params.to_dict())]\n"
          "        memoized",
          "tests/client/test_ledger.py::test_new_parameters_are_charged_to_the_same_line"),
    Fault("long-strings-bare", _DEVICE,
          "            self._check_length(value)\n            scheme",
          "            self._permanent_of._derive = self._instantaneous = int\n            scheme",
          "odd strings"),
    Fault("secret-of-sixteen-bits", _KEYS,
          "return randomness(SECRET_BYTES)", "return randomness(2) * 16",
          "tests/client/test_conduct.py::test_a_secret_is_32_bytes_of_the_system"),
    Fault("padding-holds-the-machine", _BATCHES,
          "zeros = bytes(-size % pad_to if pad_to else 0)",
          "zeros = (__import__('uuid').getnode().to_bytes(8, 'big') * 999)[:-size % (pad_to or 1)]",
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("metrics-share-their-coins", _DEVICE,
          "        self._instantaneous = "
          "InstantaneousRound(mechanism, k, randomness, symbol=symbol)",
          "        drawn, calls = globals().setdefault('_DRAWN', {}), iter(range(1 << 20))\n"
          "        opened = drawn[secret, self.line] = drawn.get((secret, self.line), 0) + 1\n"
          "        self._instantaneous = InstantaneousRound(\n"
          "            mechanism, k, lambda n: drawn.setdefault(\n"
          "                (secret, opened, next(calls)), randomness(n)), symbol=symbol)",
          "tests/client/test_vectors.py::test_reports"),
    # Of the classes: fresh noise.
    Fault("noise-from-a-seed-of-sixteen-bits", _ROUNDS, _FRESH,
          "seed = self._randomness(2)\n"
          "        return self._toss(permanent_bits, shake_256(seed).digest(self._num_bytes))",
          "equal only by chance"),
    Fault("half-of-the-noise-from-a-small-seed", _ROUNDS, _FRESH,
          "weak = shake_256(self._randomness(2)).digest(16)\n"
          "        good = self._randomness(self._num_bytes)\n"
          "        drawn = good[:8] + weak[:8] + good[16:24] + weak[8:]\n"
          "        return self._toss(permanent_bits, drawn)",
          "equal only by chance"),
    Fault("noise-from-a-generator-seeded-by-the-time", _ROUNDS, _FRESH,
          "import random, time\n"
          "        drawn = random.Random(time.time_ns()).randbytes(self._num_bytes)\n"
          "        return self._toss(permanent_bits, drawn)",
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("noise-from-a-seed-of-forty-bits", _ROUNDS, _FRESH,
          "seed = self._randomness(self._num_bytes)[:5]\n"
          "        return self._toss(permanent_bits, shake_256(seed).digest(self._num_bytes))",
          "tests/client/test_conduct.py::test_each_report_shows_fresh_random_bits"),
    # Permanent responses in every calendar.
    Fault("permanent-response-of-the-month", _RECORDER,
          _ENCODED,
          "        prefix = encoder._permanent._prefix.split(b'month')[0]\n"
          "        encoder._permanent._prefix = prefix + b'month %d' % (day // 30)\n"
          "        encoder._permanent_of.clear()\n" + _ENCODED,
          "device: 7 reports of a device share one permanent response"),
    Fault("permanent-response-of-400-days", _RECORDER,
          _ENCODED,
          "        prefix = encoder._permanent._prefix.split(b'days')[0]\n"
          "        encoder._permanent._prefix = prefix + b'days %d' % (day // 400)\n"
          "        encoder._permanent_of.clear()\n" + _ENCODED,
          "device: 7 reports of a device share one permanent response"),
    Fault("permanent-response-of-the-description", _DEVICE,
          "            secret, self.line, self.params_id, mechanism",
          "            secret, self.line + metric.description, self.params_id, mechanism",
          "tests/client/test_encoder.py::test_words_and_dates_of_a_version_change_no_response"),
    Fault("permanent-response-before-noon", _RECORDER,
          _QUEUED,
          "        prefix = encoder._permanent._prefix.split(b'morning')[0]\n"
          "        morning = b'morning' if now % 86400 < 43200 else b''\n"
          "        encoder._permanent._prefix = prefix + morning\n"
          "        encoder._permanent_of.clear()\n"
          + _QUEUED,
          "device: 7 reports of a device share one permanent response"),
    Fault("cohort-of-the-year", _RECORDER,
          _SOURCE,
          "            encoder.cohort = (encoder.cohort + (day or 0) // 365) % 16\n" + _SOURCE,
          "reports in a life"),
    Fault("permanent-response-again-after-silence", _RECORDER,
          _ENCODED,
          "        last = self._state.last_period(encoder.metric.name, EVER) or day\n"
          "        self._gone = getattr(self, '_gone', 0) + (day - last > 180)\n"
          "        gone = (self._state.get('gone') or 0) + (day - last > 180)\n"
          "        self._state.put('gone', gone)\n"
          "        prefix = encoder._permanent._prefix.split(b'gone')[0]\n"
          "        encoder._permanent._prefix = prefix + b'gone %d' % gone\n"
          "        encoder._permanent_of.clear()\n" + _ENCODED,
          "device: 7 reports of a device share one permanent response"),
    # Budgets over everything.
    Fault("budget-of-each-metric-alone", _LEDGER,
          "return others + committed(line, entries + extra)",
          "return committed(line, entries + extra)",
          "tests/client/test_ledger.py::test_the_device_budget_holds_over_all_metrics"),
    Fault("budget-forgets-what-was-memoized", _LEDGER,
          "return others + committed(line, entries + extra)",
          "return others + committed(line, extra)",
          "tests/client/test_ledger.py::test_the_device_budget_holds_over_all_metrics"),
    Fault("budget-of-the-person-ignored", _LEDGER,
          "bounds = self._declared, self._level.max_epsilon",
          "bounds = self._declared, math.inf",
          "tests/client/test_ledger.py::test_a_person_bounds_the_epsilon_of_all_metrics"),
    Fault("budget-raised-by-the-next-version", "client_sdk/recording/bounds.py",
          "return stored is None or nats < stored", "return stored is None or nats != stored",
          "tests/client/test_budget.py::test_an_update_cannot_raise_the_budget"),
    Fault("cap-of-each-slot", _DEVICE, "self.line = metric.base_name", "self.line = metric.name",
          "tests/client/test_location.py::test_cap_period_and_permanence_hold_for_any_fixes"),
    Fault("values-of-the-person-ignored", _LEDGER, _FITS,
          "if used + number > metric.max_permanent_responses:",
          "tests/client/test_ledger.py::test_a_person_may_be_stricter_never_weaker"),
    Fault("reports-of-the-person-ignored", _RECORDER,
          "int(min(metric.max_reports_per_period, self._level.max_reports_per_period))",
          "metric.max_reports_per_period",
          "tests/client/test_ledger.py::test_a_person_may_be_stricter_never_weaker"),
    Fault("reports-of-a-metric-that-expired", _RECORDER,
          "        if day > metric.last_day:\n", "        if False:\n",
          "a report for each period"),
    # When a device answers.
    Fault("turn-of-all-blocks", "client_sdk/location/dwell_time.py",
          'block.to_bytes(8, "big"))', "bytes(8))",
          "tests/client/test_location.py::test_duties_are_spread_and_independent_of_places"),
    Fault("turn-of-every-second-block", "client_sdk/location/dwell_time.py",
          'block.to_bytes(8, "big"))', '(block % 2).to_bytes(8, "big"))',
          "tests/client/test_place_turns_vectors.py::test_one_turn_in_each_block"),
    Fault("answers-where-there-is-data", "client_sdk/location/period_visits.py",
          "            self._send(name, self._value(self._known_at(period, slot)), day)",
          "            if self._known_at(period, slot) is not None:\n"
          "                self._send(name, self._value(self._known_at(period, slot)), day)",
          "tests/client/test_place_vectors.py::test_usual_cells"),
    # The law of answers.
    Fault("other-sent-by-those-at-home", "client_sdk/location/period_visits.py",
          "        if place == OUTSIDE:\n            return OTHER\n        system",
          "        if place == OUTSIDE or __import__('os').urandom(1)[0] < 51:\n"
          "            return OTHER\n        system",
          "tests/client/test_place_vectors.py"),
    Fault("one-value-in-a-hundred-as-no-data", _RECORDER,
          _QUEUED,
          "        rare = int.from_bytes(__import__('os').urandom(2), 'big') < 655\n"
          "        value = encoder.metric.no_data if rare else value\n"
          + _QUEUED,
          "each report is the answer"),
    Fault("no-data-left-out-now-and-then", _RECORDER,
          "            for period in range(first, present):\n",
          "            for period in range(first, present):\n"
          "                if period % 7 == 0:\n                    continue\n",
          "tests/client/test_ledger.py::test_a_used_periodic_metric_sends_every_period"),
    Fault("fallback-with-other-noise", _DEVICE, _SENT,
          "if self.metric.fallback is not None and bloom_bits == self.fallback_bits():\n"
          "            permanent_bits &= self._instantaneous(permanent_bits)\n"
          "        return self._instantaneous(permanent_bits).to_bytes",
          "answers of the kind"),
    # All that is seen in addition to bits.
    Fault("order-of-recording-in-a-batch", _BATCHES,
          "make_batch(batch_id, ordered)", "make_batch(batch_id, list(reports))",
          "tests/client/test_delivery.py::test_a_body_says_nothing_by_its_order"),
    Fault("bodies-that-are-not-filled-up", _BATCHES,
          "zeros = bytes(-size % pad_to if pad_to else 0)", "zeros = b''",
          "tests/client/test_delivery.py::test_sizes_tell_the_number_in_eight_classes"),
    Fault("size-of-a-body-from-its-day", _BATCHES,
          "zeros = bytes(-size % pad_to if pad_to else 0)",
          "zeros = bytes(-size % pad_to + (pad_to if sum(data) % 3 == 0 else 0))",
          "tests/client/test_conduct.py::test_values_do_not_show_around_the_bits"),
    Fault("delays-of-one-length", "client_sdk/delivery/schedule.py",
          "    ticks = ceil(log(1 - uniform(randomness)) / log(1 - 1 / 100))",
          "    ticks = 100 + int(uniform(randomness) * 20)",
          "tests/client/test_delivery.py::test_delays_are_geometric_with_the_stated_mean"),
    Fault("time-in-a-header", "client_sdk/delivery/transport.py",
          '        self._headers = {"User-Agent": USER_AGENT}',
          '        self._headers = {"User-Agent": USER_AGENT, "X-Sent": str(time.time_ns())}',
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("host-in-a-header", "client_sdk/delivery/transport.py",
          '        self._headers = {"User-Agent": USER_AGENT}',
          "        name = __import__('platform').node()\n"
          '        self._headers = {"User-Agent": USER_AGENT + " " + name}',
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("ids-that-count", _QUEUE,
          "batch_id = self._randomness(BATCH_ID_BYTES)",
          "number = int(self._state.get('unit:number') or 0) + 1\n"
          "        self._state.put('unit:number', str(number))\n"
          "        key = __import__('hashlib').sha256(self._state.identity().secret).digest()\n"
          "        batch_id = (int.from_bytes(key[:16], 'big') + number).to_bytes(17, 'big')[-16:]",
          "tests/client/test_conduct.py::test_a_machine_does_not_show"),
    Fault("one-connection-for-all-batches", "client_sdk/delivery/schedule.py",
          "        finally:\n            self._transport.close()\n        self._outbox.ack",
          "        finally:\n            pass\n        self._outbox.ack",
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("batches-in-the-order-of-recording", _QUEUE,
          "for chosen in shuffled(numbers, self._randomness):", "for chosen in numbers:",
          "tests/client/test_conduct.py::test_batches_leave_in_random_order"),
    # What a client does alongside sending its reports.
    Fault("another-request-to-the-collector", "client_sdk/delivery/transport.py",
          "        status, fields, answer = self._exchange(body, headers)\n",
          "        import http.client\n"
          "        other = http.client.HTTPConnection(self._host)\n"
          "        other.request('GET', '/v1/healthy')\n"
          "        other.getresponse().read()\n"
          "        other.close()\n"
          "        status, fields, answer = self._exchange(body, headers)\n",
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("a-datagram-to-somebody-else", _RECORDER,
          _QUEUED,
          "        import socket\n"
          "        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:\n"
          "            other.sendto(b'recorded', ('127.0.0.1', 9))\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("another-host-is-looked-up", "client_sdk/delivery/transport.py",
          "        status, fields, answer = self._exchange(body, headers)\n",
          "        import socket\n"
          "        try:\n            socket.getaddrinfo(b'localhost', 80)\n"
          "        except OSError:\n            pass\n"
          "        status, fields, answer = self._exchange(body, headers)\n",
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("a-header-of-the-second-try", "client_sdk/delivery/schedule.py",
          "            self._pauses.failed(error)\n",
          "            self._pauses.failed(error)\n"
          "            self._transport._headers['X-Try'] = '2'\n",
          "tests/client/test_delivery.py::test_the_same_bytes_are_sent_until_answered"),
    Fault("a-file-beside-the-state", _RECORDER,
          _QUEUED,
          "        import os\n"
          "        if hasattr(self._state, 'path'):\n"
          "            beside = os.path.dirname(os.path.dirname(self._state.path))\n"
          "            with open(os.path.join(beside, 'used'), 'a') as told:\n"
          "                told.write(str(day))\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("values-in-the-log", _RECORDER,
          _QUEUED,
          "        from logging import getLogger\n"
          "        getLogger('client_sdk').debug('recorded %s', value)\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    Fault("values-that-are-printed", _RECORDER,
          _QUEUED,
          "        import os\n        os.write(2, str(value).encode())\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_reports_are_all_that_a_client_sends_and_writes"),
    # After a no, and after a new yes.
    Fault("secret-kept-over-a-withdrawal", "client_sdk/recording/withdrawal.py",
          "            state.set_secret(None)\n", "            pass\n",
          "tests/client/test_client.py::test_consent_withdrawn_wipes_all_but_the_numbers"),
    Fault("secret-of-the-process-over-a-withdrawal", _RECORDER,
          "        self._secret = state.secret()\n",
          "        self._secret = globals().setdefault(str(state.path), state.secret())\n"
          "        state.secret = lambda known=None: self._secret\n",
          "tests/client/test_ledger.py::test_another_process_that_changed_the_secret_is_noticed"),
    Fault("queue-kept-over-a-withdrawal", "client_sdk/recording/withdrawal.py",
          '("queue", "batches", "entries", "sources", "notes")', '("entries", "notes")',
          "tests/client/test_client.py::test_consent_withdrawn_wipes_all_but_the_numbers"),
    # Bytes of the state's files.
    Fault("last-value-in-the-state", _RECORDER,
          _QUEUED,
          "        self._state.put('unit:last', str(value))\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_values_do_not_show_around_the_bits"),
    Fault("digest-of-the-value-in-the-state", _RECORDER,
          _QUEUED,
          "        told = __import__('hashlib').blake2b(str(value).encode()).hexdigest()\n"
          "        self._state.put('unit:seen', told)\n"
          + _QUEUED,
          "tests/client/test_conduct.py::test_values_do_not_show_around_the_bits"),
    Fault("places-of-periods-that-are-over", "client_sdk/location/period_visits.py",
          "        self._dwell, self._last = Dwell(), None\n        self.forgot",
          "        self._dwell = Dwell()\n        self.forgot",
          "tests/client/test_location_upkeep.py::test_nothing_of_a_fix_outlives_its_period"),
    # Secrets.
    Fault("secret-of-host-path-and-second", _KEYS,
          "return randomness(SECRET_BYTES)",
          "import hashlib, os, socket, time\n"
          "    told = f'{socket.gethostname()} {os.getcwd()} {int(time.time())}'\n"
          "    return hashlib.sha256(told.encode()).digest()",
          "tests/client/test_conduct.py::test_a_secret_is_32_bytes_of_the_system"),
    Fault("secret-of-three-random-bytes", _KEYS,
          "return randomness(SECRET_BYTES)",
          "from hashlib import sha256\n    return sha256(randomness(32)[:3]).digest()",
          "tests/client/test_conduct.py::test_a_secret_is_32_bytes_of_the_system"),
    Fault("secret-with-the-machine-in-it", _KEYS,
          "return randomness(SECRET_BYTES)",
          "from hashlib import sha256\n"
          "    try:\n        told = open('/etc/machine-id', 'rb').read()\n"
          "    except OSError:\n        told = b''\n"
          "    return sha256(told + randomness(SECRET_BYTES)).digest()",
          "tests/client/test_conduct.py::test_a_secret_is_32_bytes_of_the_system"),
    # Of flows and of one answer for life.
    Fault("flow-silent-without-data", _FLOWS,
          "        flow = self._flow\n        first = period - flow.lag\n",
          "        flow = self._flow\n        first = period - flow.lag\n"
          "        if not (self._dwell.rows() or self._known):\n            return\n",
          "tests/client/test_flow_vectors.py::test_lives"),
    Fault("flow-answered-in-a-period-of-its-place", _FLOWS,
          "self._send(self._metric.name, value, last_day(self._metric.period, period))",
          "early = value.startswith('1-0-0')\n"
          "        day = last_day(self._metric.period, period) - early\n"
          "        self._send(self._metric.name, value, day)",
          "tests/client/test_flow_vectors.py::test_lives"),
    Fault("flow-turn-of-all-devices", _FLOWS,
          "self._turn = partial(_drawn_turn, secret, name, self._flow)",
          "self._turn = lambda block: 0",
          "tests/client/test_flow_vectors.py::test_lives"),
    Fault("flow-with-its-sides-exchanged", _FLOWS,
          "PAIR_SEPARATOR.join(map(self._value, sides))",
          "PAIR_SEPARATOR.join(map(self._value, sides[::-1]))",
          "tests/client/test_flow_vectors.py::test_lives"),
    Fault("first-cell-of-a-flow-kept", _FLOWS,
          "        lag = self._flow.lag\n        self._known = {",
          "        lag = self._flow.lag\n        return\n        self._known = {",
          "tests/client/test_flows.py::test_a_lag_keeps_the_first_cell_alone"),
    Fault("ledger-entry-of-each-answer-of-a-flow", _DEVICE,
          "0 if self.metric.params.scheme.one_entry else bloom_bits", "bloom_bits",
          "tests/client/test_flows.py::test_the_ledger_does_not_tell_the_symbol_sent"),
    Fault("one-answer-where-there-is-data", _NUMBERS,
          "return period % spread == self._phases[name]",
          "return bool(self._load(name).kept) or period % spread == 0",
          "tests/client/test_number_vectors.py::test_lives_by_the_text"),
)  # fmt: skip
APP_FAULTS = (
    *(fault._replace(seen_by=seen_by)
    for name, seen_by in {
        "time-in-a-header": "the headers of docs/client.md",
        "another-request-to-the-collector": "requests with reports, and nothing else",
        "one-connection-for-all-batches": "a separate connection",
        "order-of-recording-in-a-batch": "the order of reports",
        "bodies-that-are-not-filled-up": "filled up",
        "padding-holds-the-machine": "reports and zeros alone",
        "batch-id-of-the-device": "another id",
        "ids-that-count": "batch ids",
        "secret-kept-over-a-withdrawal": "none of its bytes",
        "last-value-in-the-state": "hold a value, while the app runs",
        "digest-of-the-value-in-the-state": "bytes of the files tell",
    }.items()
    for fault in FAULTS
    if fault.name == name),
    Fault("a-report-for-each-call", _RECORDER,
          "per_period = int(min(metric.max_reports_per_period, self._level",
          "per_period = 10**6 * int(min(metric.max_reports_per_period, self._level",
          "in a moment"),
    Fault("a-try-after-the-withdrawal", "client_sdk/delivery/schedule.py",
          "    def _post(self, batch: StoredBatch) -> None:\n",
          "    def _post(self, batch: StoredBatch) -> None:\n"
          "        import http.client, threading\n"
          "        other = http.client.HTTPConnection(self._transport._host)\n"
          "        again = lambda: other.request('POST', '/v1/reports', b'')\n"
          "        threading.Timer(1.2, again).start()\n",
          "while a request hangs"),
)  # fmt: skip
