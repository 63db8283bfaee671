"""Simulated and real movement: fleets with fixes, riders, budgets over time."""
