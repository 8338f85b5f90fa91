"""Reading a conversation for its facts: one walk, and what was carried from earlier summaries."""
