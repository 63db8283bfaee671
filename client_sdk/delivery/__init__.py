"""Delivery of the queue to the collector: batches, schedule, HTTP and replies."""
