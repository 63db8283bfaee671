"""The HTTP routes, which read requests, call the domain and write answers."""
