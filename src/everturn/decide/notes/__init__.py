"""Session notes: kept up to date in the background, ready to serve as a summary without a model call."""
