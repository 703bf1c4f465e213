"""Readers of the gates' options: each returns the value of a text, or raises ValueError with a valid example. Pure."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from typing import Literal

from pytest_a2a_bench.text import did_you_mean

Tier = Literal["critical", "supporting", "advisory"]
"""How much a gate weighs: a critical one fails the run even where it could not be judged, an advisory one never."""

OFF = ("off", "none")
"""Words that remove a floor, such as one that the table sets."""


def read_rates(text: str) -> dict[str, float]:
    """Read ``0.6`` or ``0.6, airline=0.7!, tau2/retail=0.5?``; "" is all trials, :func:`split_tier` reads the keys."""
    if text.strip().lower() in OFF:
        return {}
    example = "a rate such as 0.6, or NAME=RATE pairs such as 0.6,airline=0.7"
    rates: dict[str, float] = {}
    marks: dict[str, str] = {}
    for name, value in _pairs(text, example):
        value, mark = _marked(value)
        rate = _number(value, example)
        if not 0 <= rate <= 1:
            percent = f"; write {rate / 100:g} for {rate:g} %" if 1 < rate <= 100 else ""
            raise ValueError(f"{value!r} is not a rate between 0 and 1{percent}")
        _once(rates, name, rate)
        marks[name] = mark
    # With the name, as it is the floor's and not the number's; settings hold plain JSON.
    return {f"{name}{marks[name]}": rate for name, rate in rates.items()}


def read_rate(text: str) -> float:
    """Read ``0.6``: one rate for all trials."""
    rates = read_rates(text)
    if list(rates) != [""]:
        raise ValueError("write one rate, such as 0.6")
    return rates[""]


TIERS: Mapping[str, Tier] = {"!": "critical", "?": "advisory"}
"""Signs behind a rate, and the tier of its gate; without a sign it is supporting."""


def split_tier(name: str) -> tuple[str, Tier]:
    """Return the group that a key of :func:`read_rates` names, and the tier of its gate."""
    group, mark = _marked(name)
    return group, TIERS.get(mark, "supporting")


def _marked(text: str) -> tuple[str, str]:
    mark = text[-1:] if text[-1:] in TIERS else ""
    return text.removesuffix(mark), mark


def read_pass_k(text: str) -> dict[str, float]:
    """Read ``4=0.3`` or ``2=0.5,4=0.3``."""
    if text.strip().lower() in OFF:
        return {}
    example = "K=RATE pairs such as 4=0.3"
    rates: dict[str, float] = {}
    for name, value in _pairs(text, example):
        rate = _number(value, example)
        # Bounded digits: Python refuses to convert very long ones, with an error of its own.
        if not re.fullmatch(r"[1-9]\d{0,5}", name, re.ASCII) or not 0 <= rate <= 1:
            raise ValueError(f"{name}={value} is not a number of trials and a rate between 0 and 1; write {example}")
        _once(rates, name, rate)
    return rates


def read_latencies(text: str) -> dict[str, float]:
    """Read ``p95=10`` or ``p50=2,p95=10``: percentile (without the p) to seconds."""
    if text.strip().lower() in OFF:
        return {}
    example = "percentiles such as p95=10"
    limits: dict[str, float] = {}
    for name, value in _pairs(text, example):
        seconds = _number(value, example)
        percent = re.fullmatch(r"p(\d{1,3}(?:\.\d+)?)", name, re.ASCII)
        if not percent or float(percent[1]) > 100 or seconds <= 0:
            pair = f"{name}={value}".removeprefix("=")
            raise ValueError(f"{pair} is not a percentile and a positive number of seconds; write {example}")
        _once(limits, percent[1], seconds)
    return limits


def read_metrics(text: str) -> dict[str, float]:
    """Read ``leak=0, over_refusal=5%!``: a number of rewards to its highest mean; :func:`split_tier` reads the keys."""
    if text.strip().lower() in OFF:
        return {}
    example = "NAME=RATE pairs such as leak=0,over_refusal=0.05"
    limits: dict[str, float] = {}
    marks: dict[str, str] = {}
    for name, value in _pairs(text, example):
        share, mark = _marked(value)
        rate = _number(share.removesuffix("%"), example) / (100 if share.endswith("%") else 1)
        if not re.fullmatch(r"[A-Za-z][\w.-]{0,60}", name, re.ASCII) or not 0 <= rate <= 1:
            raise ValueError(f"{name}={value} is not the name of a number and a rate between 0 and 1; write {example}")
        _once(limits, name, rate)
        marks[name] = mark
    return {f"{name}{marks[name]}": rate for name, rate in limits.items()}


def read_drop(text: str) -> float:
    """Read a rate above 0 and up to 1."""
    drop = _number(text, "a rate such as 0.05")
    if not 0 < drop <= 1:
        raise ValueError(f"{text!r} is not a rate above 0 and up to 1; no number of trials shows a drop of exactly 0")
    return drop


def read_dollars(text: str) -> float:
    """Read an amount of money, 0 or more."""
    dollars = _number(text.strip().removeprefix("$"), "a number of dollars such as 2.50")
    # What nobody has to pay for may be asked for, too: a maximum of 0 is a way to demand free models.
    if dollars < 0:
        raise ValueError(f"{text!r} is not a number of dollars of at least 0")
    return dollars


def read_errors(text: str) -> int | float:
    """Read a number of trials (``3``), or a share of them (``0.05``, ``5%``)."""
    word = text.strip()
    # 3 counts trials and 0.05 is a share; "1" is one trial and "1.0" is all of them.
    if re.fullmatch(r"\d{1,18}", word, re.ASCII):
        return int(word)
    share = _number(word.removesuffix("%"), "a number of trials such as 3, or a share such as 0.05 or 5%")
    share = share / 100 if word.endswith("%") else share
    if not 0 <= share <= 1:
        raise ValueError(f"{text!r} is not a whole number of trials, or a share between 0 and 1")
    return float(share)


def read_reply_limits(text: str) -> dict[str, float]:
    """Read ``calls=64,bytes=16M``: the bounds of one reply by name, without those that equal the default."""
    # The vocabulary is loaded where something is asked; this module in every pytest run.
    from pytest_a2a_bench.model.messages import DEFAULT_BOUNDS, LARGEST

    if text.strip().lower() == "default":
        return {}
    example = "NAME=NUMBER pairs such as calls=64,bytes=16M"
    limits: dict[str, float] = {}
    for name, value in _pairs(text, example):
        if name not in LARGEST:
            raise ValueError(f"{name or value!r} is no limit of a reply; the limits are {', '.join(LARGEST)}")
        sized = re.fullmatch(r"(\d{1,15})([KMG])", value, re.ASCII) if name in ("bytes", "total") else None
        number = int(sized[1]) * 1024 ** (1 + "KMG".index(sized[2])) if sized else _number(value, example)
        whole = name == "cpu" or number == int(number)
        if not whole or not (0 < number if name == "cpu" else 1 <= number) or number > LARGEST[name]:
            kind = "seconds above 0" if name == "cpu" else "a whole number from 1"
            raise ValueError(f"{name}={value} is not {kind} up to {LARGEST[name]:g}; write {example}")
        _once(limits, name, number)
    return {name: value for name, value in limits.items() if value != getattr(DEFAULT_BOUNDS, name)}


NOISE = ("tool-error", "tool-timeout", "partial", "stale", "wrong")
"""Kinds of noise that hit a share of the calls of tools."""

USER_STYLES = ("terse", "chatty", "typos", "impatient", "changes-mind")
"""How a user may talk in trials with noise."""


def read_noise(text: str) -> dict[str, float | str]:
    """Read ``tool-error=0.1,wrong=0.02,user=terse``: the shares of calls that each kind of noise hits."""
    if text.strip().lower() in OFF:
        return {}
    example = "NAME=RATE pairs such as tool-error=0.1,wrong=0.02,user=terse"
    found: dict[str, float | str] = {}
    for name, value in _pairs(text, example):
        if name == "user":
            if value not in USER_STYLES:
                raise ValueError(f"user={value}: users are {', '.join(USER_STYLES)}{did_you_mean(value, USER_STYLES)}")
            found[name] = value
            continue
        if name not in NOISE:
            if not name and value in NOISE:
                raise ValueError(f"{value} has no rate; write {value}=RATE, such as {value}=0.1")
            near = did_you_mean(name, (*NOISE, "user"))
            raise ValueError(f"{name or value!r} is no kind of noise; the kinds are {', '.join(NOISE)}, user{near}")
        rate = _number(value, example)
        if not 0 < rate <= 1:
            raise ValueError(f"{name}={value} is not a share of the calls above 0 and up to 1; write {example}")
        if name in found:
            raise ValueError(f"{name} is given twice; write {example}")
        found[name] = rate
    return found


def _pairs(text: str, example: str) -> list[tuple[str, str]]:
    found = []
    for part in re.split(r"[,\n]", text):
        if part.strip():
            # From the right: the name of a group may have an equals sign.
            name, separator, value = part.rpartition("=")
            if separator and not name.strip():
                raise ValueError(f"{part.strip()!r} names nothing before its '='; write {example}")
            found.append((name.strip(), value.strip()))
    if not found:
        raise ValueError(f"the value is empty; write {example}")
    return found


def _number(text: str, example: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    # nan and inf are numbers to Python and no limits to anybody.
    if not math.isfinite(value):
        raise ValueError(f"{text!r} is not a number; write {example}")
    return value


def _once(values: dict[str, float], name: str, value: float) -> None:
    # Of two values one would silently win.
    if name in values:
        raise ValueError(f"{name or 'the rate of all trials'} is given twice")
    values[name] = value
