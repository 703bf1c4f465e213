"""Which items there are."""
