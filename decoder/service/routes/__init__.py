"""The API, `/v1/...`: it reads requests, calls `decoder.service.operations`, and shows rows."""

from fastapi import FastAPI

from decoder.service.guard import GuardedRoute, include, is_open
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

_MODULES = (sessions, jobs, results, releases, lists, schedules, admin, health)


def open_operations() -> set[str]:
    """The operations that ask for no key, by their ids."""
    routes = [route for module in _MODULES for route in module.router.routes]
    return {
        str(route.operation_id)
        for route in routes
        if isinstance(route, GuardedRoute) and is_open(route)
    }


def add_routes(app: FastAPI) -> None:
    """Put every route on an app."""
    for module in _MODULES:
        include(app, module.router)
