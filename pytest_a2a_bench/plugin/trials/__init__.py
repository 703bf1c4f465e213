"""Trials in pytest: started ahead of their items, received by fixtures, shown in reports."""
