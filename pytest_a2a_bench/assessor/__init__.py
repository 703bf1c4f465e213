"""The assessor: an agent that platforms ask over A2A to evaluate somebody's agent (AgentBeats calls it green)."""
