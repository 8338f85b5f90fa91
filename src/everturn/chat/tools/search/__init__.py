"""Finding files by name and by what is in them."""
