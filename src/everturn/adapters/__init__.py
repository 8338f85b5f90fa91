"""everturn inside other people's tools: one folder or file for each."""
