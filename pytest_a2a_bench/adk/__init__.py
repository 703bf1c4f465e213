"""An ADK agent with evaluations as its tools; :mod:`.tools` and :mod:`.runs` need no google-adk."""
