"""The features of the service: the modules that hold their API (`/v1/...`) and their pages."""

from __future__ import annotations

from fastapi import FastAPI

from decoder_service.dictionary import page as dictionary_page
from decoder_service.jobs import api as jobs_api
from decoder_service.jobs import page as jobs_page
from decoder_service.lists import api as lists_api
from decoder_service.lists import page as lists_page
from decoder_service.metrics import api as metrics_api
from decoder_service.metrics import chart_page
from decoder_service.metrics import page as metrics_page
from decoder_service.people import api as people_api
from decoder_service.people import keys_page, provider_page, sessions_api, sessions_page
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
    sessions_api,
    jobs_api,
    results_api,
    releases_api,
    lists_api,
    schedules_api,
    metrics_api,
    people_api,
    health,
)
_PAGES = (
    static,
    sessions_page,
    provider_page,
    dictionary_page,
    metrics_page,
    chart_page,
    lists_page,
    jobs_page,
    schedules_page,
    results_page,
    releases_page,
    compare_page,
    keys_page,
    state_page,
)


def add_features(app: FastAPI) -> None:
    """Put the API and the pages of every feature on an app."""
    for module in (*_API, *_PAGES):
        include(app, module.router)
