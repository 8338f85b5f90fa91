"""A Model Context Protocol server that lets an agent ask about its own context."""
