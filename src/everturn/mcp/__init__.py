"""What may the agent itself ask? A server for the Model Context Protocol."""
