"""Judge a gateway: what it changes, adds or loses between clients and an agent."""
