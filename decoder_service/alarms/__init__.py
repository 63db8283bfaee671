"""Alarms of schedules: their rules, their messages (events), mail and webhooks."""
