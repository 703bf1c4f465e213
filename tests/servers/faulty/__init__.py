"""A correct A2A 1.0 server of its own that breaks exactly one requirement when told to.

It is written against the specification and not on top of a2a-sdk, so that nothing else is wrong in its answers, and so
that a fault can be put anywhere between the agent and the bytes on the wire. ``python tests/servers/faulty`` serves it.
"""

from __future__ import annotations
