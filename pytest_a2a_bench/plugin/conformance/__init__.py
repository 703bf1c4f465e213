"""Requirements of the protocol in pytest: as items, with verdicts, in a matrix."""
