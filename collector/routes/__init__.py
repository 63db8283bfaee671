"""HTTP in, HTTP out: reading requests, calling the service, writing answers."""
