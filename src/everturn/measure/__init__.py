"""How much: tokens, models and prices, the prefix cache, the bill."""
