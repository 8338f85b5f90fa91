"""One session played through the engine: what it says, what it costs, what it sees."""
