"""The decoder as a service: jobs, stored results, candidate lists, people, over HTTP.

Its own process and its own database. It reads aggregates from a collector over HTTP, from files
of a folder, or from uploads. See docs/service.md.
"""
