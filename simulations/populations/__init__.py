"""Populations, fleets of simulated devices, and aggregates drawn from their exact distribution."""
