"""The pages of the service: HTML that works without a script, under a strict policy."""

from fastapi import FastAPI

from decoder.service.guard import include
from decoder.service.pages import (
    admin,
    compare,
    dictionary,
    jobs,
    lists,
    metrics,
    provider,
    releases,
    results,
    schedules,
    sessions,
    static,
)


def add_pages(app: FastAPI) -> None:
    """Put every page on an app."""
    for module in (
        static,
        sessions,
        provider,
        dictionary,
        metrics,
        lists,
        jobs,
        schedules,
        results,
        releases,
        compare,
        admin,
    ):
        include(app, module.router)
