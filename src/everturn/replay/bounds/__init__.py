"""Bounds: a lower bound for any policy, and two plans that know the future (RP-9, EC-12)."""
