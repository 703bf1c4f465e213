"""Credentials and internals that have no place in a public document (pure)."""

from __future__ import annotations

import re

_SHAPES = {
    "a private key": r"-----BEGIN [A-Z ]*PRIVATE KEY-----",
    "an AWS access key": r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",
    "an OpenAI or Anthropic key": r"\bsk-[A-Za-z0-9_\-]{20,}",
    "a GitHub token": r"\bgh[pousr]_[A-Za-z0-9]{30,}\b|\bgithub_pat_[A-Za-z0-9_]{40,}",
    "a GitLab token": r"\bglpat-[A-Za-z0-9_\-]{20,}",
    "a Slack token": r"\bxox[abeoprs]-[A-Za-z0-9\-]{10,}",
    "a Google API key": r"\bAIza[0-9A-Za-z_\-]{35}\b",
    "a JSON web token": r"\beyJ[A-Za-z0-9_\-]{8,400}\.eyJ[A-Za-z0-9_\-]{8,2000}\.[A-Za-z0-9_\-]{8}",
    "a bearer token": r"\b[Bb]earer\s+(?=[A-Za-z0-9._\-]*\d)[A-Za-z0-9._\-]{20,}",
    "a password": r"(?i)\b(?:password|passwd|client_secret|api_key)\s*[=:]\s*(?=[^\s,;]*\d)[^\s,;]{6,}",
}
_PATTERNS = {kind: re.compile(pattern) for kind, pattern in _SHAPES.items()}
_LONGEST = 20_000


def find_secret(text: str) -> str:
    """Say what kind of credential a text seems to hold; empty for none. The credential itself is never told."""
    text = text[:_LONGEST]
    return next((kind for kind, pattern in _PATTERNS.items() if pattern.search(text)), "")
