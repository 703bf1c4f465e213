"""Lint of tau2's tasks: the installed ones, those of a checkout, and anybody's own."""
