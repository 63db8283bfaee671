"""Alarms of schedules: their rules, their messages (events), and delivery by Apprise."""
