"""Values that mean the same in every metric, apart from the grid so that reading them is light."""

OTHER = "other"  # of a location: outside the grid, no data, or past the cap
