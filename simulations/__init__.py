"""Simulated populations, fleets of clients, and experiments with them."""
