"""The settings file of Claude Code: what everturn puts there, and how it is taken out again."""
