"""Judge A2A clients: serve them a correct agent whose tasks are situations, and see how they behave."""
