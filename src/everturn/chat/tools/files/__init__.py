"""Reading and changing files of the workspace."""
