"""WHAT DO PEOPLE LOOK AT? Figures are computed once, then drawn to a terminal."""
