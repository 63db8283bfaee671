"""The table for `metrics.toml`, which `rappor metrics check` accepts."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from datetime import date

from metric_design.central_privacy import MIN_REPORTS_A_COHORT
from metric_design.detection import PlanSetting
from metric_design.metric_plan import toml_key
from metric_design.noise import Noise
from metric_design.request import PlanRequest
from metric_design.review import reports_of_cohorts
from rappor_core.metrics.keys import (
    DEFAULT_MIN_REPORTS,
    DEFAULT_MIN_REPORTS_PER_COHORT,
)
from rappor_core.params import RapporParams


@dataclass(frozen=True)
class Labels:
    """Name, description, owner and expiry of the planned metric, for `metrics.toml`."""

    name: str
    description: str
    owner: str
    expires: date


def metric_table(
    labels: Labels, request: PlanRequest, kind: str, setting: PlanSetting, noise: Noise
) -> str:
    """The metric as a TOML table. Categories without names are `value-1`, and so on."""
    params = setting.params
    lines = [
        f"[metrics.{toml_key(labels.name)}]",
        f'kind = "{kind}"',
        f"description = {_text(labels.description)}",
        f"owner = {_text(labels.owner)}",
        f"expires = {labels.expires.isoformat()}",
    ]
    if params.scheme.hashed:
        lines += [f"num_bits = {params.num_bits}", f"num_hashes = {params.num_hashes}"]
        lines += [f"num_cohorts = {params.num_cohorts}"]
    lines += noise.lines
    if not params.scheme.single_bit:
        lines += _values(1 if noise.mode == "once" else request.values, params)
    lines += [
        f'period = "{request.period}"',
        f"min_reports = {_min_reports(params.num_cohorts)}",
    ]
    return "\n".join(lines) + "\n"


def _min_reports(cohorts: int) -> int:
    return max(DEFAULT_MIN_REPORTS, MIN_REPORTS_A_COHORT * cohorts)


def merged_periods(devices: float, cohorts: int) -> int:
    """Number of periods that are served as one, if each device sends a report in each of them."""
    needed = reports_of_cohorts(cohorts, DEFAULT_MIN_REPORTS_PER_COHORT, _min_reports(cohorts))
    return math.ceil(needed / devices)


def _values(held: int, params: RapporParams) -> list[str]:
    """The cap, and what is sent past it."""
    if params.scheme.hashed:
        return [f"max_memoized_values = {held}", 'fallback = "other"']
    number = params.num_bits
    names = [f"value-{i}" for i in range(1, number)] + ["other"]
    cap = min(held, number)
    lines = [
        f"categories = {json.dumps(names)}  # put your own in their place",
        f"max_memoized_values = {cap}",
    ]
    return lines if cap >= number else [*lines, 'fallback = "other"']


def _text(value: str) -> str:
    return json.dumps(value, ensure_ascii=True)
