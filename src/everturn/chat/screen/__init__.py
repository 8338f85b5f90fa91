"""What a person sees and types: pure where it can be, and `terminal.py` for the rest."""
