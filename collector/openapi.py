"""The OpenAPI 3.1 document of the collector; docs/openapi.json is its written form.

Written by `python -m collector.openapi > docs/openapi.json`; a test compares the two.
"""

from __future__ import annotations

import json

from collector.domain.access import Scope
from collector.openapi_schemas import DAY, FLAG, HEX, TEXT, Schema, ref, schemas
from collector.routes.aggregates import JSON_LINES
from rappor_core.wire.report import BINARY_CONTENT_TYPE
from rappor_server.problems import PROBLEM_JSON

API_VERSION = "1"
SEALED: Schema = {"type": "string", "format": "binary"}


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
            "schemas": schemas(),
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
    }


def _report_paths() -> Schema:
    content = {
        "application/json": {"schema": ref("Batch")},
        BINARY_CONTENT_TYPE: {"schema": {"type": "string", "format": "binary"}},
    }
    return {
        "/v1/reports": {
            "post": _operation(
                "postReports",
                "Count the reports of a batch; answered when they are on the disk.",
                [Scope.REPORT],
                answer=ref("Receipt"),
                problems=(400, 401, 403, 408, 409, 413, 415, 422, 429, 503),
                body=content,
            )
        },
        "/v1/ohttp": {
            "post": _operation(
                "postOblivious",
                "Count the reports of a batch that a relay passed on (RFC 9458); sealed inside.",
                [],
                answer=SEALED,
                media_type="message/ohttp-res",
                problems=(400, 404, 408, 413, 415, 422, 503),
                body={"message/ohttp-req": {"schema": SEALED}},
            )
        },
    }


def _window_parameters() -> tuple[Schema, list[Schema]]:
    """`name` in the path, and what tells the window."""
    name = _parameter("name", "path", {"type": "string"})
    return name, [
        _parameter("from", "query", DAY),
        _parameter("to", "query", DAY),
        _parameter("params_id", "query", HEX),
    ]


def _reading_paths() -> Schema:
    name, window = _window_parameters()
    return {
        "/v1/metrics": {
            "get": _operation(
                "listMetrics",
                "Every version of every metric: definition, total accepted, days served.",
                [Scope.AGGREGATE, Scope.ADMIN],
                answer=ref("Metrics"),
            ),
            "post": _operation(
                "pushMetrics",
                "Declare the metrics of a metrics.toml.",
                [Scope.ADMIN],
                answer=ref("Push"),
                problems=(401, 403, 408, 409, 413, 415, 422, 429, 503),
                parameters=[_parameter(name, "query", FLAG) for name in ("weaken", "revive")],
                body={"application/toml": {"schema": {"type": "string"}}},
            ),
        },
        "/v1/metrics/{name}/aggregate": {
            "get": _operation(
                "readAggregate",
                "Counts of a window of closed days, whole blocks only.",
                [Scope.AGGREGATE],
                answer=ref("Aggregate"),
                problems=(401, 403, 404, 409, 422, 429, 503),
                parameters=[name, *window],
            )
        },
        "/v1/metrics/{name}/reports": {
            "get": _operation(
                "exportReports",
                "Raw reports of closed days, where the metric keeps them: a line of JSON each.",
                [Scope.ADMIN],
                answer=TEXT,
                media_type=JSON_LINES,
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
        "/v1/metrics/{name}/pause": {
            "post": _operation(
                "pauseMetric",
                "Take no reports of a metric for now, or, with `resume`, take them again.",
                [Scope.ADMIN],
                answer={"type": "object", "required": ["name", "paused"]},
                problems=(401, 403, 404, 422, 429, 503),
                parameters=[name, _parameter("resume", "query", {"type": "boolean"})],
            )
        },
    }


def _admin_paths() -> Schema:
    day = _parameter("day", "path", DAY)
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
                "Close a day and all before it, for good; with dry_run only say what closes.",
                admin,
                answer=ref("Closed"),
                problems=(401, 403, 404, 422, 429, 503),
                parameters=[day, metric, _parameter("dry_run", "query", FLAG)],
            )
        },
        "/v1/keys": {
            "get": _operation("listKeys", "All keys.", admin, answer=ref("Keys")),
            "post": _operation(
                "createKey",
                "Make a key; shown once.",
                admin,
                status=201,
                answer=ref("NewKey"),
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
    text = {"200": {"description": "Counts", "content": {"text/plain": {"schema": TEXT}}}}
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


def _operation(
    name: str,
    summary: str,
    scopes: list[Scope],
    *,
    answer: Schema,
    status: int = 200,
    media_type: str = "application/json",
    problems: tuple[int, ...] = (401, 403, 429, 503),
    parameters: list[Schema] | None = None,
    body: Schema | None = None,
) -> Schema:
    content = {media_type: {"schema": answer}}
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
    content = {PROBLEM_JSON: {"schema": ref("Problem")}}
    return {str(status): {"description": "Refused", "content": content} for status in statuses}


def _parameter(name: str, place: str, schema: Schema) -> Schema:
    return {"name": name, "in": place, "required": place == "path", "schema": schema}


if __name__ == "__main__":
    print(json.dumps(document(), indent=1))
