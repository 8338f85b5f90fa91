"""WHAT IS SEEN? From the view of the log to what is sent."""
