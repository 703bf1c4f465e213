"""Faults between an A2A client and an agent, on purpose: :mod:`.faults` names them, :mod:`.proxy` injects them."""

from __future__ import annotations
