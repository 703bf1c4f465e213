"""What the test agents say, as data: ``phrasings/*.toml``.

``[phrases]``: intent -> phrasings; of an intent's forms ``?`` asks, ``!`` commands, ``.`` is terse.
``[writes.TOOL]``: how a write is offered (``offers`` stand after "I will", ``blocks`` are lists), and reported.
A phrasing of the set is drawn by chance for each thing said, so that every task hears another mixture.
"""

from __future__ import annotations

import datetime
import functools
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parent / "phrasings"
SETS = tuple(sorted(p.stem for p in FOLDER.glob("*.toml")))


@dataclass(frozen=True)
class Phrasings:
    """One set: intent -> phrasings, and write -> kind (offers, blocks, reports) -> phrasings."""

    phrases: Mapping[str, list[str]]
    writes: Mapping[str, Mapping[str, list[str]]]


@functools.cache
def read(name: str) -> Phrasings:
    """Return a set of ``phrasings/``."""
    content = tomllib.loads((FOLDER / f"{name}.toml").read_text())
    return Phrasings(content["phrases"], content["writes"])


def words(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Return the arguments of a call as an agent would put them into a sentence."""
    said = {k: ", ".join(map(str, v)) if isinstance(v, list) else _plain(v) for k, v in arguments.items()}
    flights = arguments.get("flights", ())
    said["flights"] = " and ".join(f"flight {f['flight_number']} on {f['date']}" for f in flights)
    said["legs"] = " and ".join(f"{f['flight_number']} on {_day(f['date'])}" for f in flights)
    said["people"] = ", ".join(f"{p['first_name']} {p['last_name']}" for p in arguments.get("passengers", ()))
    said["payments"] = " and ".join(str(p["payment_id"]) for p in arguments.get("payment_methods", ()))
    said["cabin"] = str(arguments.get("cabin", "")).replace("_", " ")
    items, new = arguments.get("item_ids", ()), arguments.get("new_item_ids", ())
    said["items"] = " and ".join(f"item {i}" for i in items)
    said["swaps"] = ", ".join(f"{old} for {other}" for old, other in zip(items, new, strict=False))
    said["address"] = ", ".join(said[k] for k in ("address1", "address2", "city") if said.get(k))
    said["address"] += f", {said.get('state', '')} {said.get('zip', '')}"
    *networks, kind = str(arguments.get("mode", "")).split("_")
    said["mode_words"] = f"{'/'.join(networks).upper()} {kind}"
    return said


def _plain(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _day(date: str) -> str:
    return f"{datetime.date.fromisoformat(date):%B} {int(date[-2:])}"
