"""What is shown, in numbers: one file for each part of a report."""
