"""The parts of a session that is being held: tools, notes, costs, the bill, and what a restart needs."""
