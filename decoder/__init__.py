"""The decoder: from an aggregate to frequencies with honest intervals."""
