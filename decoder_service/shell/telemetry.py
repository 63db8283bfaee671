"""Counts for Prometheus, of the whole database. No person, metric, list or value is a label."""

from __future__ import annotations

from prometheus_client import CONTENT_TYPE_LATEST, CollectorRegistry, Gauge, generate_latest

from decoder_service.alarms.rows import EventState, count_events
from decoder_service.jobs.claims import live_workers
from decoder_service.jobs.rows import JobState, count_states, job_ages
from decoder_service.shell.database import now
from decoder_service.shell.service import DecoderService

CONTENT_TYPE = CONTENT_TYPE_LATEST


def render(service: DecoderService) -> bytes:
    """The text that Prometheus reads. Raises StorageError."""
    with service.database.read() as connection:
        at = now(connection)
        states, events = count_states(connection), count_events(connection)
        waiting, running = job_ages(connection, at)
        workers = live_workers(connection, 2 * service.settings.lease_seconds)
    registry = CollectorRegistry()
    jobs = Gauge(
        "rappor_decoder_jobs", "Jobs that are kept, by state", ["state"], registry=registry
    )
    for state in JobState:
        jobs.labels(state.value).set(states.get(state.value, 0))
    events_gauge = Gauge("rappor_decoder_events", "Events of alarms", ["state"], registry=registry)
    for one in EventState:
        events_gauge.labels(one.value).set(events.get(one.value, 0))
    for name, text, value in (
        ("oldest_queued_seconds", "Age of the job that waits longest", waiting),
        ("longest_running_seconds", "Age of the job that runs longest", running),
        ("workers", "Workers that live", len(workers)),
        ("slots", "Jobs that they do at once", sum(one.slots for one in workers)),
    ):
        Gauge(f"rappor_decoder_{name}", text, registry=registry).set(value)
    return generate_latest(registry)
