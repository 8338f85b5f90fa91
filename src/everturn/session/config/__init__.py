"""Configuration: one `Options` value from defaults, files, environment and arguments, in that order."""
