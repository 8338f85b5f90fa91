"""Measuring: tokens and what uses them, thresholds, models and prices, the prefix cache, costs."""
