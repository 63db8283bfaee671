"""Summaries of results of kinds that have a decoder of their own."""

from __future__ import annotations

from typing import Any

from decoder.discovery.discovery import Discovery
from decoder.output.discovery_text import statement

MOST_SHOWN = 20


def number_summary(content: dict[str, Any]) -> dict[str, Any]:
    """Of a number: its mean and quantiles. content: results.json."""
    return {
        "num_reports": content["num_reports"],
        "unit": content["unit"],
        "mean": content["mean"],
        "quantiles": content["quantiles"][:MOST_SHOWN],
        "warnings": content["warnings"],
    }


def pair_summary(content: dict[str, Any]) -> dict[str, Any]:
    """Of a pair: the test of independence, and the largest cells. content: results.json."""
    cells = sorted(content["cells"], key=lambda cell: -cell["fitted"])
    names = ("first", "second", "estimate", "low", "high")
    return {
        "num_reports": content["reports"],
        "of": content["of"],
        "num_cells": len(cells),
        "independence": content["independence"],
        "top": [{name: cell[name] for name in names} for cell in cells[:MOST_SHOWN]],
        "warnings": content["warnings"],
    }


def discovery_summary(found: Discovery) -> dict[str, Any]:
    """Of a discovery: how many strings, but none of them: devices chose this text."""
    return {
        "num_reports": found.num_reports,
        "num_found": len(found.found),
        "num_tested": found.num_tested,
        "num_below_crowd": found.num_below_crowd,
        "half_found": found.half_found,
        "statement": list(statement(found)),
        "warnings": [],
    }
