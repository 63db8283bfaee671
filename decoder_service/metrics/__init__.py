"""The metrics that the collector declares, and what is known of each."""
