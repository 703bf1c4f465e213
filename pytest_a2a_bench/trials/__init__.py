"""One trial, and many in flight."""
