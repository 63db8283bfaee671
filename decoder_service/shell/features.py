"""The features of the service: the modules that hold their API (`/v1/...`) and their pages."""

from __future__ import annotations

from fastapi import FastAPI

from decoder_service.dictionary import page as dictionary_page
from decoder_service.jobs import api as jobs_api
from decoder_service.jobs import page as jobs_page
from decoder_service.lists import api as lists_api
from decoder_service.lists import page as lists_page
from decoder_service.metrics import chart_page
from decoder_service.metrics import page as metrics_page
from decoder_service.people import admin, sessions
from decoder_service.releases import api as releases_api
from decoder_service.releases import page as releases_page
from decoder_service.results import api as results_api
from decoder_service.results import compare_page
from decoder_service.results import page as results_page
from decoder_service.schedules import api as schedules_api
from decoder_service.schedules import page as schedules_page
from decoder_service.shell import health, state_page, static
from decoder_service.shell.guard import include

_API = (
    sessions.router,
    jobs_api.router,
    results_api.router,
    releases_api.router,
    lists_api.router,
    schedules_api.router,
    metrics_page.api,
    admin.router,
    health.router,
)
_PAGES = (
    static.router,
    sessions.pages,
    dictionary_page.router,
    metrics_page.router,
    chart_page.router,
    lists_page.router,
    jobs_page.router,
    schedules_page.router,
    results_page.router,
    releases_page.router,
    compare_page.router,
    admin.pages,
    state_page.router,
)


def add_features(app: FastAPI) -> None:
    """Put the API and the pages of every feature on an app."""
    for router in (*_API, *_PAGES):
        include(app, router)
