"""From the view of the log to the request that is sent."""
