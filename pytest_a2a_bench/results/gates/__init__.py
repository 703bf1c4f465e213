"""Thresholds and a baseline make trials into a verdict; pure but for the files."""
