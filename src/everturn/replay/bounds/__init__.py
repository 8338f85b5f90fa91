"""What no policy can undercut, and what could be had by knowing the future (RP-9)."""
