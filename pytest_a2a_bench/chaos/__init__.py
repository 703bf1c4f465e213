"""Faults between an A2A client and an agent: a proxy that resets, hangs, refuses and distorts as it is told to.

Importing this package imports nothing; :mod:`.spec` is what can be asked for, :mod:`.proxy` the way in.
"""

from __future__ import annotations
