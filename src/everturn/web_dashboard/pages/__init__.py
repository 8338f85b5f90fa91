"""The pages as HTML. Values in, markup out: nothing here reads a file or asks for the time."""
