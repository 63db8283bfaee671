"""The encoder of one metric on one device: its cohort, both rounds, and the ledger's digests.

Kept apart from `rappor_core.wire.report`, so that an app that records does not load the wire
format.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from client_sdk.errors import UnknownMetricError
from client_sdk.randomisation.key_derivation import (
    DIGEST_BYTES,
    SECRET_BYTES,
    Randomness,
    cohort_of,
    derive,
    jitter_of,
    system_randomness,
)
from client_sdk.randomisation.rounds import InstantaneousRound, PermanentRound
from rappor_core.errors import ParameterError, ValueRefusedError
from rappor_core.metrics.metric import Metric

if TYPE_CHECKING:
    from datetime import date

    from rappor_core.wire.report import Report

MAX_REMEMBERED = 256  # values of which derivations are kept in memory, for speed alone
MAX_REMEMBERED_CHARS = 256
MAX_VALUE_CHARS = 2_048  # the time of Unicode's normal form grows with the square of the length


class MetricEncoder:
    """Encodes the values of one metric on one device.

    cohort: public.
    line: the name that the ledger charges and by which responses are keyed: sub-metrics
        `name/slot/level` share that of `name`, so that a value seen in several is paid once.
    """

    __slots__ = (
        "_bits_bytes",
        "_bits_of",
        "_digest_of",
        "_encode",
        "_instantaneous",
        "_jitter",
        "_permanent",
        "_permanent_of",
        "_secret",
        "cohort",
        "line",
        "metric",
        "params_id",
    )

    def __init__(self, metric: Metric, secret: bytes, randomness: Randomness) -> None:
        """Derive the cohort and prepare both rounds. secret: 32 bytes, private."""
        params = metric.params
        self.metric = metric
        self.params_id = metric.params_id
        self.line = metric.base_name
        self.cohort = cohort_of(secret, self.line, params.num_cohorts)
        self._secret = secret
        self._encode = params.scheme.value_bits
        jittered = metric.rules.jittered(metric)
        self._jitter = jitter_of(secret, self.line, self.params_id) if jittered else 0.0
        self._bits_bytes = params.report_bytes
        mechanism, k, symbol = params.mechanism, params.num_bits, params.scheme.symbols
        self._permanent = PermanentRound(
            secret, self.line, self.params_id, mechanism, k, symbol=symbol
        )
        self._instantaneous = InstantaneousRound(mechanism, k, randomness, symbol=symbol)
        self._bits_of: dict[str | bool, int] = {}
        self._permanent_of: dict[int, int] = {}
        self._digest_of: dict[int, bytes] = {}

    def value_bits(self, value: object) -> int:
        """The bits B of a value, k bits. Raises ValueRefusedError. Private."""
        if not ((type(value) is str and len(value) <= MAX_REMEMBERED_CHARS) or type(value) is bool):
            self._check_length(value)
            scheme = self.metric.params.scheme
            return scheme.jittered_bits(self.metric, value, self.cohort, self._jitter)
        bits = self._bits_of.get(value)
        if bits is None:
            encode = self._encode
            bits = self._bits_of[value] = encode(self.metric, value, self.cohort)
            if len(self._bits_of) > MAX_REMEMBERED:
                self._bits_of.clear()
        return bits

    def cuts(self) -> list[float]:
        """The cuts with which this device compares its numbers, rising, for metrics of numbers.
        Private."""
        number, symbols = self.metric.details, self.metric.params.num_bits
        cuts: list[float] = number.thresholds(self.cohort, symbols, self._jitter)
        return cuts

    def _check_length(self, value: object) -> None:
        if isinstance(value, str) and len(value) > MAX_VALUE_CHARS:
            raise ValueRefusedError(
                f"metric {self.metric.name!r} takes strings of {MAX_VALUE_CHARS:,} characters at "
                "most; record a part of the value, or a digest of it"
            )

    def report_bits(self, bloom_bits: int) -> bytes:
        """The report bits S as on the wire: both rounds over B, the second one fresh at each
        call."""
        permanent_bits = self._permanent_of.get(bloom_bits)
        # `__call__` by its name is a plain method, without the interpreter's detour over C
        if permanent_bits is None:
            permanent_bits = self._permanent_of[bloom_bits] = self._permanent.__call__(bloom_bits)
            if len(self._permanent_of) > MAX_REMEMBERED:
                self._permanent_of.clear()
        return self._instantaneous.__call__(permanent_bits).to_bytes(self._bits_bytes, "little")

    def permanent_bits(self, bloom_bits: int) -> int:
        """The permanent bits B' of B. Private: for audits."""
        return self._permanent(bloom_bits)

    def digest(self, bloom_bits: int) -> bytes:
        """The keyed digest, 16 bytes, under which the ledger keeps a memoised response. Private.

        Two values with the same bits share one permanent response, and so one digest; all values
        do whose encoding has `one_entry`.
        """
        if self.metric.params.scheme.one_entry:
            bloom_bits = 0
        digest = self._digest_of.get(bloom_bits)
        if digest is None:
            line, params_id = self.line.encode(), bytes.fromhex(self.params_id)
            bits = bloom_bits.to_bytes(self._bits_bytes, "little")
            digest = derive(self._secret, b"ledger", line, params_id, bits, length=DIGEST_BYTES)
            self._digest_of[bloom_bits] = digest
            if len(self._digest_of) > MAX_REMEMBERED:
                self._digest_of.clear()
        return digest

    def fallback_bits(self) -> int:
        """The bits B of the declared fallback. Only for a metric that has one."""
        return self.value_bits(self.metric.fallback)

    def reserved_bits(self) -> list[int]:
        """The bits of the values to memoise before any other, because they may have to be sent
        at any time.

        The fallback, and what stands for no data; or all values where there is no fallback.

        (A metric without a fallback has so few values that all fit in its cap.)
        """
        metric = self.metric
        if metric.fallback is not None:
            always = (metric.fallback, metric.no_data)
            return [self.value_bits(value) for value in always if value is not None]
        return [self.value_bits(value) for value in metric.rules.all_values(metric)]


class Encoder:
    """Encodes values of one device into reports, without a ledger.

    metrics: the declared ones, by name.  secret: 32 bytes, private.
    randomness: where the instantaneous responses come from.
    """

    __slots__ = ("_devices", "_metrics", "_randomness", "_report", "_secret")

    def __init__(
        self,
        metrics: Mapping[str, Metric],
        secret: bytes,
        randomness: Randomness = system_randomness,
    ) -> None:
        """Raises ParameterError for a secret that has not 32 bytes."""
        if len(secret) != SECRET_BYTES:
            raise ParameterError(
                f"a secret has {SECRET_BYTES} bytes, not {len(secret)}: make it with "
                "new_secret(system_randomness), once for a device"
            )
        self._metrics = metrics
        self._secret = secret
        self._randomness = randomness
        self._devices: dict[str, MetricEncoder] = {}
        self._report: type[Report] | None = None

    def encode(self, name: str, value: object, day: date) -> Report:
        """Make a fresh report of a value, by both rounds.

        Raises UnknownMetricError, and ValueRefusedError where the metric cannot encode the value.
        No ledger stands here: whoever calls must bound the number of distinct values and reports
        (`client_sdk.Recorder` does).
        """
        report = self._report or self._load()
        device = self._devices.get(name) or self.metric(name)
        bloom_bits = device.value_bits(value)
        bits = device.report_bits(bloom_bits)
        # as Report(...), which a generated constructor makes half as fast
        return tuple.__new__(report, (name, device.params_id, device.cohort, day, bits))

    def _load(self) -> type[Report]:
        """Import what an app that records does not need, once: it costs as much as a hash."""
        from rappor_core.wire.report import Report

        self._report = Report
        return Report

    def metric(self, name: str) -> MetricEncoder:
        """The encoder of one metric on this device. Raises UnknownMetricError."""
        device = self._devices.get(name)
        if device is None:
            if name not in self._metrics:
                raise UnknownMetricError(name, self._metrics)
            device = MetricEncoder(self._metrics[name], self._secret, self._randomness)
            self._devices[name] = device
        return device
