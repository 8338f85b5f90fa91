"""Configuration: one typed value, from defaults, files, environment and arguments, in that order."""
