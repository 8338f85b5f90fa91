"""Styles, scripts and pictures of the dashboard; the browser loads nothing else."""
