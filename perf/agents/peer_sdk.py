"""An agent on a2a-sdk 1.x with everything that it serves: three bindings, push notifications; obeys words.

With ``--tenant`` its interfaces have a tenant.
"""

from __future__ import annotations

import json
import sys

from scripted import Features, full_agent

if __name__ == "__main__":
    port = next((int(word) for word in sys.argv if word.isdigit()), 0)
    with full_agent(Features(tenant="acme" if "--tenant" in sys.argv else ""), port=port) as url:
        print(json.dumps({"url": url}), flush=True)
        sys.stdin.read()
