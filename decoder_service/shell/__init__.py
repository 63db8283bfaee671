"""The frame of the service: the app, its settings, its database and the pages' layout."""
