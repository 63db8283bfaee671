"""The decoder as a service: jobs, stored results, candidate lists and people, over HTTP.

It has its own process and database. It reads aggregates from a collector over HTTP, from files in a
folder, or from uploads. See docs/service.md."""
