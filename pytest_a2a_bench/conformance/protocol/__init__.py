"""The protocol: operations, payloads, streams and the old form of parameters (pure)."""
