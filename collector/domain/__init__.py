"""What the collector does, in transactions on the store. Knows nothing of HTTP."""
