"""Memory files: instructions that people keep in a project, found, read and kept inside their roots."""
