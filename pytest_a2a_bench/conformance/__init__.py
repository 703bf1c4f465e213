"""Judging an agent card and a protocol implementation from outside, with evidence."""
