"""Raw exchanges with an agent that is judged: nothing is forgiven here."""
