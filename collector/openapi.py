"""The OpenAPI 3.1 document of the collector; docs/openapi.json is its written form.

Written by `python -m collector.openapi > docs/openapi.json`; a test compares the two.
"""

from __future__ import annotations

import json
from typing import Any

from collector.problems import PROBLEM_JSON
from collector.service.acceptance import Reason
from collector.service.access import Scope
from rappor_core.report import BINARY_CONTENT_TYPE, MAX_METRIC_BYTES, MAX_REPORTS, WIRE_VERSION

API_VERSION = "1"
Schema = dict[str, Any]

_HEX = {"type": "string", "pattern": "^[0-9a-f]{32}$"}
_DAY = {"type": "string", "format": "date"}
_COUNT = {"type": "integer", "minimum": 0}


def document() -> Schema:
    """The whole document, as plain values."""
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rappor-telemetry collector",
            "version": API_VERSION,
            "description": "Takes randomised reports, keeps counters, serves closed days.",
            "license": {"name": "Apache-2.0", "identifier": "Apache-2.0"},
        },
        "paths": _report_paths() | _reading_paths() | _admin_paths() | _health_paths(),
        "components": {
            "schemas": _schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _report_paths() -> Schema:
    content = {
        "application/json": {"schema": _ref("Batch")},
        BINARY_CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}},
    }
    return {
        "/v1/reports": {
            "post": _operation(
                "postReports",
                "Count the reports of a batch; answered when they are on the disk.",
                [Scope.REPORT],
                answer=_ref("Receipt"),
                problems=(400, 401, 403, 408, 409, 413, 415, 422, 429, 503),
                body=content,
            )
        }
    }


def _reading_paths() -> Schema:
    name = _parameter("name", "path", {"type": "string"})
    window = [
        _parameter("from", "query", _DAY),
        _parameter("to", "query", _DAY),
        _parameter("params_id", "query", _HEX),
    ]
    return {
        "/v1/metrics": {
            "get": _operation(
                "listMetrics",
                "Every version of every metric: definition, total accepted, days served.",
                [Scope.AGGREGATE, Scope.ADMIN],
                answer=_ref("Metrics"),
            ),
            "post": _operation(
                "pushMetrics",
                "Declare the metrics of a metrics.toml.",
                [Scope.ADMIN],
                answer=_ref("Push"),
                problems=(401, 403, 408, 409, 413, 415, 422, 429, 503),
                parameters=[_parameter("weaken", "query", {"enum": ["true", "false"]})],
                body={"application/toml": {"schema": {"type": "string"}}},
            ),
        },
        "/v1/metrics/{name}/aggregate": {
            "get": _operation(
                "readAggregate",
                "Counts of a window of closed days, whole blocks only.",
                [Scope.AGGREGATE],
                answer=_ref("Aggregate"),
                problems=(401, 403, 404, 409, 422, 429, 503),
                parameters=[name, *window],
            )
        },
        "/v1/metrics/{name}/retire": {
            "post": _operation(
                "retireMetric",
                "Take no more reports of a metric, or of one version.",
                [Scope.ADMIN],
                answer={"type": "object", "required": ["name", "retired"]},
                problems=(401, 403, 404, 422, 429, 503),
                parameters=[name, window[2]],
            )
        },
    }


def _admin_paths() -> Schema:
    day = _parameter("day", "path", _DAY)
    metric = _parameter("metric", "query", {"type": "string"})
    key_id = _parameter("key_id", "path", {"type": "string"})
    limit = _parameter("limit", "query", {"type": "integer", "minimum": 1, "maximum": 1000})
    admin = [Scope.ADMIN]
    new_key = {
        "type": "object",
        "required": ["scope", "label"],
        "additionalProperties": False,
        "properties": {"scope": {"enum": list(Scope)}, "label": {"type": "string"}},
    }
    return {
        "/v1/days/{day}/close": {
            "post": _operation(
                "closeDay",
                "Close a day and all before it, for good.",
                admin,
                answer=_ref("Closed"),
                problems=(401, 403, 404, 422, 429, 503),
                parameters=[day, metric],
            )
        },
        "/v1/keys": {
            "get": _operation("listKeys", "All keys.", admin, answer=_ref("Keys")),
            "post": _operation(
                "createKey",
                "Make a key; shown once.",
                admin,
                status=201,
                answer=_ref("NewKey"),
                problems=(400, 401, 403, 408, 413, 415, 422, 429, 503),
                body={"application/json": {"schema": new_key}},
            ),
        },
        "/v1/keys/{key_id}/revoke": {
            "post": _operation(
                "revokeKey",
                "Make a key worthless.",
                admin,
                answer={"type": "object", "required": ["key_id", "revoked"]},
                problems=(401, 403, 404, 429, 503),
                parameters=[key_id],
            )
        },
        "/v1/audit": {
            "get": _operation(
                "readAudit",
                "The latest acts of admins and analysts.",
                admin,
                answer={"type": "object", "required": ["entries"]},
                problems=(401, 403, 422, 429, 503),
                parameters=[limit],
            )
        },
    }


def _health_paths() -> Schema:
    status = {"type": "object", "required": ["status"]}
    text = {"200": {"description": "Counts", "content": {"text/plain": {"schema": _TEXT}}}}
    return {
        "/healthz": {
            "get": _operation("health", "The process lives.", [], answer=status, problems=())
        },
        "/readyz": {
            "get": _operation("ready", "The database answers.", [], answer=status, problems=(503,))
        },
        "/metrics": {
            "get": {
                "operationId": "prometheus",
                "summary": "Counts for Prometheus; with protect_metrics for admins only.",
                "responses": text | _problems((401, 403, 429, 503)),
            }
        },
    }


_TEXT = {"type": "string"}


def _operation(
    name: str,
    summary: str,
    scopes: list[Scope],
    *,
    answer: Schema,
    status: int = 200,
    problems: tuple[int, ...] = (401, 403, 429, 503),
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
) -> Schema:
    content = {"application/json": {"schema": answer}}
    operation: Schema = {
        "operationId": name,
        "summary": summary,
        "responses": {str(status): {"description": "Done", "content": content}}
        | _problems(problems),
    }
    if scopes:
        operation["description"] = f"Needs a key of scope {' or '.join(scopes)}."
        operation["security"] = [{"key": []}]
    if parameters:
        operation["parameters"] = parameters
    if body:
        operation["requestBody"] = {"required": True, "content": body}
    return operation


def _problems(statuses: tuple[int, ...]) -> Schema:
    content = {PROBLEM_JSON: {"schema": _ref("Problem")}}
    return {str(status): {"description": "Refused", "content": content} for status in statuses}


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


def _ref(name: str) -> Schema:
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


def _schemas() -> Schema:
    report = _object(
        {
            "metric": {"type": "string", "minLength": 1, "maxLength": MAX_METRIC_BYTES},
            "params_id": _HEX,
            "cohort": {"type": "integer", "minimum": 0, "maximum": 65535},
            "day": _DAY,
            "bits": {"type": "string", "contentEncoding": "base64", "minLength": 4},
        }
    )
    reports = _list(report) | {"minItems": 1, "maxItems": MAX_REPORTS}
    version = {"const": WIRE_VERSION, "type": "integer"}
    accepted = _object({"status": {"const": "accepted"}})
    refused = _object(
        {"status": {"const": "refused"}, "reason": {"enum": list(Reason)}, "detail": _TEXT}
    )
    return {
        "Batch": _object({"version": version, "batch_id": _HEX, "reports": reports}),
        "Receipt": _object(
            {
                "version": version,
                "batch_id": _HEX,
                "duplicate": {"type": "boolean"},
                "results": _list({"oneOf": [accepted, refused]}),
            }
        ),
        "Problem": _object(
            {"type": _TEXT, "title": _TEXT, "status": {"type": "integer"}, "detail": _TEXT},
            {"reason": _TEXT, "closes": _DAY},
            closed=False,
        ),
        **_reading_schemas(),
        **_admin_schemas(),
    }


def _reading_schemas() -> Schema:
    span = _object({"first_day": _DAY, "last_day": _DAY})
    metric = _object(
        {
            "name": _TEXT,
            "params_id": _HEX,
            "state": {"enum": ["current", "older", "expired", "retired"]},
            "accepted": _COUNT,
            "closed_through": _DAY,
            "served": {"oneOf": [span, {"type": "null"}]},
            "definition": {"type": "object"},
        }
    )
    aggregate = _object(
        {
            "version": {"const": 1},
            "metric": _TEXT,
            "definition": {"type": "object"},
            "params_id": _HEX,
            "params": {"type": "object"},
            "first_day": _DAY,
            "last_day": _DAY,
            "reports_per_cohort": _list(_COUNT),
            "bit_counts": _list(_list(_COUNT)),
        }
    )
    return {
        "Metrics": _object({"version": {"const": 1}, "metrics": _list(metric)}),
        "Aggregate": aggregate,
    }


def _admin_schemas() -> Schema:
    names = _list(_TEXT)
    key = {"key_id": _TEXT, "scope": {"enum": list(Scope)}, "label": _TEXT}
    listed = key | {"created": _DAY, "revoked": {"oneOf": [_DAY, {"type": "null"}]}}
    return {
        "Push": _object({"added": names, "changed": names, "weakened": names}),
        "Closed": _object({"closed_through": _DAY, "metrics": names, "days_with_reports": _COUNT}),
        "Keys": _object({"keys": _list(_object(listed))}),
        "NewKey": _object(key | {"key": _TEXT}),
    }


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
