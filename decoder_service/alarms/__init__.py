"""Alarms of schedules: their rules, the events that they tell, mail and webhooks."""
