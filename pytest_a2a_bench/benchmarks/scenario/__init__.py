"""Scenarios: conversations that a project's own tests describe, about its agent's own job."""
