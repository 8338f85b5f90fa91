"""The tools of `everturn chat`. Names and inputs are the same as in Claude Code."""
