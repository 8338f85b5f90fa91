"""Reading the facts of a conversation: one pass, plus what earlier summaries carried over."""
