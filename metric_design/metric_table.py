"""The table for `metrics.toml`, which `rappor metrics check` accepts."""

from __future__ import annotations

import json
import re
from datetime import date

from metric_design.central_claim import REPORTS_A_COHORT
from metric_design.design import Design
from metric_design.request import PlanRequest
from rappor_core.metrics.metric import DEFAULT_MIN_REPORTS

_BARE = re.compile(r"[a-z0-9_-]+", re.ASCII)  # keys of TOML that need no quotes


def metric_table(
    name: str, description: str, owner: str, expires: date, request: PlanRequest, design: Design
) -> str:
    """The metric as a TOML table. Categories without names are `value-1`, and so on."""
    params = design.params
    lines = [
        f"[metrics.{name if _BARE.fullmatch(name) else json.dumps(name)}]",
        f'kind = "{design.kind}"',
        f"description = {_text(description)}",
        f"owner = {_text(owner)}",
        f"expires = {expires.isoformat()}",
    ]
    if params.scheme.hashed:
        lines += [f"num_bits = {params.num_bits}", f"num_hashes = {params.num_hashes}"]
        lines += [f"num_cohorts = {params.num_cohorts}"]
    lines += [
        f"epsilon_infinity = {design.infinity:.10g}",
        f"epsilon_one = {design.one:.10g}  # f = {params.prob_f:.4f}, p = {params.prob_p:.4f}, "
        f"q = {params.prob_q:.4f}",
    ]
    lines += _values(request, design)
    lines += [
        f'period = "{request.period}"',
        f"min_reports = {max(DEFAULT_MIN_REPORTS, REPORTS_A_COHORT * params.num_cohorts)}",
    ]
    return "\n".join(lines) + "\n"


def _values(request: PlanRequest, design: Design) -> list[str]:
    """The cap, and what is sent past it."""
    if design.params.scheme.single_bit:
        return []
    if design.params.scheme.hashed:
        return [f"max_memoized_values = {request.values}", 'fallback = "other"']
    number = design.params.num_bits
    names = [f"value-{i}" for i in range(1, number)] + ["other"]
    cap = min(request.values, number)
    lines = [
        f"categories = {json.dumps(names)}  # put your own in their place",
        f"max_memoized_values = {cap}",
    ]
    return lines if cap >= number else [*lines, 'fallback = "other"']


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=True)
