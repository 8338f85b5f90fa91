"""What a synthetic session works on: the files of a project, their contents, and the results of tools."""
