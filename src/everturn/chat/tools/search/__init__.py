"""Find files by name and by content."""
