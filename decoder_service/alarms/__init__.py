"""Alarms on schedules: rules, messages (events), and delivery by Apprise."""
