"""The HTTP routes: read requests, call the domain, write answers."""
