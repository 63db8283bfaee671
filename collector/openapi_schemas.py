"""The shapes of bodies and answers in the OpenAPI document."""

from __future__ import annotations

from typing import Any

from collector.domain.access import Scope
from collector.domain.report_validation import Reason
from rappor_core.wire.report import MAX_METRIC_BYTES, MAX_REPORTS, WIRE_VERSION

Schema = dict[str, Any]

HEX = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
DAY = {"type": "string", "format": "date"}
FLAG = {"enum": ["true", "false"]}
COUNT = {"type": "integer", "minimum": 0}
TEXT = {"type": "string"}


def ref(name: str) -> Schema:
    """A reference to a named schema of `schemas`."""
    return {"$ref": f"#/components/schemas/{name}"}


def _object(required: Schema, optional: Schema | None = None, *, closed: bool = True) -> Schema:
    return {
        "type": "object",
        "required": sorted(required),
        "properties": required | (optional or {}),
        "additionalProperties": not closed,
    }


def _list(items: Schema) -> Schema:
    return {"type": "array", "items": items}


def schemas() -> Schema:
    """Every named JSON schema of the collector's answers and requests."""
    report = _object(
        {
            "metric": {"type": "string", "minLength": 1, "maxLength": MAX_METRIC_BYTES},
            "params_id": HEX,
            "cohort": {"type": "integer", "minimum": 0, "maximum": 65535},
            "day": DAY,
            "bits": {"type": "string", "contentEncoding": "base64", "minLength": 4},
        }
    )
    reports = _list(report) | {"minItems": 1, "maxItems": MAX_REPORTS}
    version = {"const": WIRE_VERSION, "type": "integer"}
    accepted = _object({"status": {"const": "accepted"}})
    refused = _object(
        {"status": {"const": "refused"}, "reason": {"enum": list(Reason)}}, {"detail": TEXT}
    )
    return {
        "Batch": _object({"version": version, "batch_id": HEX, "reports": reports}),
        "Receipt": _object(
            {
                "version": version,
                "batch_id": HEX,
                "duplicate": {"type": "boolean"},
                "results": _list({"oneOf": [accepted, refused]}),
            }
        ),
        "Problem": _object(
            {"type": TEXT, "title": TEXT, "status": {"type": "integer"}, "detail": TEXT},
            {"reason": TEXT, "closes": DAY},
            closed=False,
        ),
        **_reading_schemas(),
        **_admin_schemas(),
    }


def _reading_schemas() -> Schema:
    span = _object({"first_day": DAY, "last_day": DAY})
    waiting = _object(
        {"first_day": DAY, "last_day": DAY, "reports": COUNT, "smallest_cohort": COUNT}
    )
    growing = _object({"day": DAY, "reports": COUNT, "usual": COUNT})
    metric = _object(
        {
            "name": TEXT,
            "params_id": HEX,
            "state": {"enum": ["current", "older", "expired", "retired"]},
            "accepted": COUNT,
            "closed_through": DAY,
            "served": {"oneOf": [span, {"type": "null"}]},
            "waiting": {"oneOf": [waiting, {"type": "null"}]},
            "growing": _list(growing),
            "definition": {"type": "object"},
        }
    )
    aggregate = _object(
        {
            "version": {"const": 1},
            "metric": TEXT,
            "definition": {"type": "object"},
            "params_id": HEX,
            "params": {"type": "object"},
            "first_day": DAY,
            "last_day": DAY,
            "reports_per_cohort": _list(COUNT),
            "bit_counts": _list(_list(COUNT)),
        }
    )
    return {
        "Metrics": _object({"version": {"const": 1}, "metrics": _list(metric)}),
        "Aggregate": aggregate,
    }


def _admin_schemas() -> Schema:
    names = _list(TEXT)
    key = {"key_id": TEXT, "scope": {"enum": list(Scope)}, "label": TEXT}
    listed = key | {"created": DAY, "revoked": {"oneOf": [DAY, {"type": "null"}]}}
    return {
        "Push": _object(
            {"added": names, "changed": names, "weakened": names, "still_retired": names}
        ),
        "Closed": _object({"closed_through": DAY, "metrics": names, "days_with_reports": COUNT}),
        "Keys": _object({"keys": _list(_object(listed))}),
        "NewKey": _object(key | {"key": TEXT}),
    }
