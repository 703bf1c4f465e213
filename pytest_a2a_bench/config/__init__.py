"""Settings: their text, their sources and their validation."""
