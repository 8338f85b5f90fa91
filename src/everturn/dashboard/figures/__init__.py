"""The numbers of a report: one file for each part."""
