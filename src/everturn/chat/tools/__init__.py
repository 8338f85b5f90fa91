"""What the agent of `everturn chat` can do: tools with the names and inputs that people know."""
