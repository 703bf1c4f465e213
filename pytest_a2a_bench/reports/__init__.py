"""Reports of runs and of conformance, for terminals, files and browsers."""
