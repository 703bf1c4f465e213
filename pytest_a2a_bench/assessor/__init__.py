"""The assessor: an A2A agent that evaluates the agents of its callers (AgentBeats calls it a green agent)."""
