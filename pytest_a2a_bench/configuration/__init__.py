"""Options: how they are declared and how their values are read."""
