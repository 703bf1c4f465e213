"""A trial in pytest: run ahead of its item, received by it, told by its reports."""
