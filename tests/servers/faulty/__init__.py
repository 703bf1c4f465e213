"""A correct A2A server, written from the specification alone, that breaks one requirement if a fault is named.

It does not use a2a-sdk's server, so that a fault can be put anywhere between the agent and the bytes on the wire.
"""

from __future__ import annotations
