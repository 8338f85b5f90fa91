"""Read and change files of the workspace."""
