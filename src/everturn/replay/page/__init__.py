"""The runs of a replay as one HTML page that works offline (RP-10)."""
