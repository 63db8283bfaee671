"""Faults planted in the client, one at a time: `rappor audit` must find each of them."""

from __future__ import annotations

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


BOX_OF = {
    "derivations": ("round has its", "another process", "derivations", "two metrics",
                    "of two values", "two sets"),
    "rounds": ("exactly the declared", "coins at thresholds"),
    "device": ("a value or", "values past", "reports in a life", "two places"),
}  # fmt: skip


class Fault(NamedTuple):
    """What a client does wrong.

    name: unique.  file: below the root.  old, new: exact texts; `old` stands in the file once.
    seen_by: a part of the name of a check that must fail.  metrics: what is audited.
    installations: whole ones, for what shows in them alone.
    """

    name: str
    file: str
    old: str
    new: str
    seen_by: str
    metrics: str = METRICS
    installations: int = 0

    @property
    def box(self) -> str:
        """The part of the audit that has the check."""
        if self.installations:
            return "installed"
        found = (box for box, texts in BOX_OF.items() if any(x in self.seen_by for x in texts))
        return next(found, "encoder")


_ROUNDS = "client_sdk/randomisation/rounds.py"
_COINS = "client_sdk/randomisation/randomness.py"
_KEYS = "client_sdk/randomisation/key_derivation.py"
_DEVICE = "client_sdk/randomisation/metric_encoder.py"
_LEDGER = "client_sdk/recording/ledger.py"
_RECORDER = "client_sdk/recording/recorder.py"
_QUEUE = "client_sdk/delivery/queue.py"

_PERMANENT = "return self._toss(bits, shake_256(keyed).digest(self._num_bytes))"
_FRESH = "return self._toss(permanent_bits, self._randomness(self._num_bytes))"
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
          "coins = _coins(mechanism.p2, mechanism.q2 - 1, num_bits, symbol)",
          "exactly the declared coins"),
    Fault("last-digits-of-coins-lost", _COINS,
          "for place in range(zeros, PROBABILITY_BITS)",
          "for place in range(max(zeros, 8), PROBABILITY_BITS)",
          "coins at thresholds"),
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
          "bits = self._bits_of.get(value)",
          "self.cohort = len(str(value)) * 7 % 16 if value == 'audit-000' else "
          "sum(str(value).encode()) % 16\n        bits = self._bits_of.get(value)",
          "cohort"),
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
    Fault("seeded-randomness", _COINS,
          "return os.urandom(num_bytes)",
          "import random\n    return random.Random(7).randbytes(num_bytes)",
          "devices draw independent noise"),
    Fault("one-secret-for-all-installations", _KEYS,
          "return randomness(SECRET_BYTES)", "return bytes(range(32))",
          "cohorts are uniform", installations=30),
    Fault("batch-id-of-the-device", _QUEUE,
          "batch_id = self._randomness(BATCH_ID_BYTES)",
          'batch_id = ((self._state.identity().secret or b"")[:14] + rows[0][0].encode())[:16]',
          "every batch has an id of its own", installations=30),
    Fault("fallback-bare", _RECORDER,
          "device.report_bits(bits))",
          "device.report_bits(bits) if device.metric.fallback is None or bits != "
          'device.fallback_bits() else bits.to_bytes(16, "little"))',
          "a value or the fallback"),
    Fault("cap-off-by-one", _LEDGER, _FITS, _FITS.replace("min(", "1 + min("),
          "values past the cap"),
    Fault("no-cap", _LEDGER, _FITS, "if False:", "values past the cap"),
    Fault("silence-past-the-cap", _LEDGER,
          'return Decision(device.fallback_bits(), "past_cap")',
          'return Decision(None, "past_cap")',
          "values past the cap"),
    Fault("a-report-too-many", "client_sdk/storage/memory.py",
          "counts[key] >= most for key", "counts[key] > most for key",
          "reports in a life"),
    Fault("no-data-is-silence", _RECORDER,
          "for period in range(first, present):", "for period in range(0):",
          "a value or no_data"),
    Fault("no-data-bare", _RECORDER,
          "device.report_bits(bits))",
          "device.report_bits(bits) if device.metric.no_data is None or bits != "
          'device.value_bits(device.metric.no_data) else bits.to_bytes(16, "little"))',
          "a value or no_data"),
    Fault("places-bare", _DEVICE,
          "return self._instantaneous(permanent_bits).to_bytes",
          "return (bloom_bits if self.metric.location else self._instantaneous(permanent_bits))"
          ".to_bytes",
          "two places", PLACES),
    Fault("places-reported-once-a-slot-too-many", "client_sdk/location/recorder.py",
          "outcome = self._recorder.record(name, value, float(day * SECONDS_A_DAY))",
          "outcome = self._recorder.record(name, value, float(day * SECONDS_A_DAY))\n"
          "        self._recorder.record(name, value, float((day - 9) * SECONDS_A_DAY))",
          "reports in a life", PLACES),
)  # fmt: skip
