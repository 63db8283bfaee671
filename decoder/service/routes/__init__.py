"""The API, `/v1/...`: it reads requests, calls `decoder.service.operations`, and shows rows."""

from fastapi import FastAPI

from decoder.service.routes import (
    admin,
    health,
    jobs,
    lists,
    releases,
    results,
    schedules,
    sessions,
)


def add_routes(app: FastAPI) -> None:
    """Put every route on an app."""
    for module in (sessions, jobs, results, releases, lists, schedules, admin, health):
        app.include_router(module.router)
