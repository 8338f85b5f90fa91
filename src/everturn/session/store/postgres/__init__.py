"""Conversations in PostgreSQL, for several replicas that share them."""
