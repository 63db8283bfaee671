"""Made-up cities and their flows, and ways to learn them at equal epsilon for life."""
