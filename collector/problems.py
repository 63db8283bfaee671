"""Which problem document answers an error of the collector."""

from __future__ import annotations

from collector import errors
from rappor_core.errors import (
    AggregateError,
    EncapsulationError,
    MetricsFileError,
    WireFormatError,
)
from rappor_server.problems import SHARED_RULES, ProblemRule

RULES = (
    ProblemRule(errors.BatchTooLargeError, 413, "batch-too-large"),
    ProblemRule(errors.UnsupportedMediaError, 415, "unsupported-media"),
    ProblemRule(errors.ScopeError, 403, "wrong-scope"),
    ProblemRule(errors.SenderShownError, 503, "sender-shown"),
    ProblemRule(errors.RelayKeyError, 422, "relay-key"),
    ProblemRule(errors.BatchConflictError, 409, "batch-conflict"),
    ProblemRule(errors.NotServedError, 409, "not-served"),
    ProblemRule(errors.MetricChangeError, 409, "weakens-privacy"),
    ProblemRule(
        errors.DamagedBlocksError,
        500,
        "damaged-days",
        "closed days of this metric are damaged; the operator restores a backup",
    ),
    ProblemRule(WireFormatError, 400, "not-a-batch"),
    ProblemRule(EncapsulationError, 400, "not-opened"),
    ProblemRule(MetricsFileError, 422, "bad-metrics"),
    ProblemRule(AggregateError, 422, "bad-aggregate"),
    *SHARED_RULES,
)
