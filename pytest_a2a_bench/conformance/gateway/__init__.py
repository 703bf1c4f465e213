"""Judge a gateway: the changes, additions and losses between clients and an agent."""
