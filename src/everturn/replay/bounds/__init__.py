"""Two bounds: a lower bound for the cost of any policy, and an oracle that knows later uses (RP-9)."""
