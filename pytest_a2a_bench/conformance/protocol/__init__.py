"""What the protocol says: operations, payloads, streams and the old form of parameters (pure)."""
