"""Benchmarks: where tasks, environments, users and rewards come from."""
