"""The public dictionary of metrics, which needs no key."""
