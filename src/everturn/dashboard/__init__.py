"""WHAT DO PEOPLE LOOK AT? Figures and cells computed once, then drawn to a terminal."""
