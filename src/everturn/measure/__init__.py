"""HOW MUCH? Tokens and what holds them, thresholds, models and prices, the prefix cache, the bill."""
