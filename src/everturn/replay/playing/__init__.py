"""One session run through the engine: its requests, its bill, and what it needs to fetch again."""
