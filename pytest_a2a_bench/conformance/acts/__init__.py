"""ACTS: conformance tests that the A2A project declares in YAML, made on our wire and reported as our own checks."""
