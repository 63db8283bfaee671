"""Maps of places with intervals, from the aggregates of location metrics."""
