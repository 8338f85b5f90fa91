"""`everturn chat`: a coding agent in the terminal, built on the library."""
