"""The sessions on this machine: where they are, what they are called, and which one a person means."""
