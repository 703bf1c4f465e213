"""tau2-bench: its real environments, users and evaluators, with the agent spoken to over A2A."""
