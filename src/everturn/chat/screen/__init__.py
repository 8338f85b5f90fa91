"""Input and output of the chat: pure formatting functions, and `terminal.py` for the terminal itself."""
