"""Memory files: instructions kept in a project (CLAUDE.md, AGENTS.md), read only below allowed roots."""
