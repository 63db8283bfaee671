"""The metrics that the collector declares, and the results for each metric."""
