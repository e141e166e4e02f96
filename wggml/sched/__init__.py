"""The scheduler: one graph over several backends."""
