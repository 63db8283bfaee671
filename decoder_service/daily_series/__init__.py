"""A series of each metric, a day a window, that the service keeps up to date by itself."""
