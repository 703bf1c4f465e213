"""The command a2a-bench."""
