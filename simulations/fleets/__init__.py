"""Fleets too large to simulate a device at a time: counts over periods, drawn from their law."""
