"""The device of the client's tests, put where apps live."""

from tests.client.conftest import clock, collector, metrics, metrics_text, open_client

__all__ = ["clock", "collector", "metrics", "metrics_text", "open_client"]
