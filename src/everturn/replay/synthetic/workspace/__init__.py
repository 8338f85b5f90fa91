"""What a made-up session acts on: the files of a project, their contents, and the answers of the tools."""
