"""Maps with intervals, estimated from aggregates of location metrics."""
