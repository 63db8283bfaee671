"""What holds the features together: the app, its settings, its database and its pages' frame."""
