"""The door for people who talk: an ADK agent with evaluations as its tools.

What is here and needs no google-adk can be used without it: :mod:`.tools` from any program, :mod:`.runs` below that.
"""
