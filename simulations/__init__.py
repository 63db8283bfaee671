"""Populations, fleets of clients and experiments, on top of the other packages."""
