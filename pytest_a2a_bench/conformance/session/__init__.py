"""One interface of an agent while it is judged: its address, its connection, its health, and shared objects."""
