"""The metrics that the collector declares, and the results of each."""
