"""An agent on a2a-sdk 1.x with everything that it serves: three bindings, push notifications; obeys words."""

# mypy: ignore-errors
# What it imports lives in another environment than the one that is type-checked.
from __future__ import annotations

import json
import sys

from full_agent import full_agent

if __name__ == "__main__":
    with full_agent() as url:
        print(json.dumps({"url": url}), flush=True)
        sys.stdin.read()
