"""Which of the four BANT factors an answer says are not met."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.crmarena.score.mentions import Mention
from pytest_a2a_bench.benchmarks.crmarena.tasks import BANT_FACTORS

# Need is also a verb, hence the rules below for that word alone.
_FACTOR = re.compile(
    r"\b(?:(?P<budget>budget)|(?P<authority>authority)|(?P<timeline>timeline|time ?frame)|(?P<need>needs?))\b",
    re.IGNORECASE,
)
_LISTED = r"(?:budget|authority|timeline|time ?frame)"
_BESIDE = re.compile(rf"{_LISTED}\W{{1,4}}(?:(?:and|or|nor|&)\s+)?\W?\Z", re.IGNORECASE)
_BEFORE = re.compile(rf"\W?\s*(?:,|/|&|\band\b|\bor\b)\s*(?:(?:and|or)\s+)?\W?{_LISTED}", re.IGNORECASE)
_NEAR = 40
"""How far before the word need another factor may stand beside it, with all that joins them."""
_BLANKS = re.compile(r"\s{2,}")
_VERB = re.compile(r"\s+(?:to|a|an|the|more|further|for)\b", re.IGNORECASE)
# Where an answer turns from what is met to what is not.
_BREAK = re.compile(
    r"[.;\n]+|,?\s*\b(?:but|however|while|whereas|although|though|except|yet|because)\b|"
    # "meets Budget and fails Need": the second half is a clause of its own.
    r",?\s+and\s+(?=(?:\w+\s+){0,2}?(?:meets?|met|has|have|fails?|lacks?|satisf\w+|does|did|is|are)\b)",
    re.IGNORECASE,
)
_UNMET = re.compile(
    r"\b(?:fail\w*|lack\w*|miss(?:es|ing)|unmet|unclear|insufficient|inadequate|absent|unqualified|unconfirmed|"
    r"undefined|weak|responsible|issues?|problem\w*|concern\w*|gaps?|short of|not|no|without|cannot|never|unable|"
    r"disqualif\w+|reasons?)\b|n['\u2019]t\b|[\u2717\u2718\u274c]",
    re.IGNORECASE,
)
_MET = re.compile(
    r"\b(?:meets?|met|satisf\w+|confirmed|has|have|pass(?:es|ed)?|ok|okay|qualif\w+|fulfil\w*|clear|sufficient|"
    r"established|adequate|strong|fine|yes)\b|[\u2713\u2714\u2705]",
    re.IGNORECASE,
)
_ITEM = re.compile(
    r"[\"'`*_]*\s*(?:[:=\u2013\u2014(-]+|\bis\b|\bare\b|\bwas\b)\s*[\"'`*_]*"
    r"(?:(?P<bad>not\b|no\b|un\w+|fail\w*|missing|lack\w*|insufficient|absent|false|\u2717|\u2718|\u274c|n/a)"
    r"|(?P<good>met\b|yes\b|ok\b|pass\w*|satisf\w+|confirmed|true|clear\b|sufficient|fine|\u2713|\u2714|\u2705))",
    re.IGNORECASE,
)
_NO_FAULT = re.compile(
    r"\b(?:none|no (?:bant )?factors?|all (?:four|of the|the|bant)\b[^.;\n]{0,40}\b(?:met|satisfied|confirmed|ok)|"
    r"meets all|(?:fails|lacks|misses) (?:none|no\b))",
    re.IGNORECASE,
)


def find_unmet(text: str) -> tuple[str, ...]:
    """Return the factors that an answer says are not met, in the usual order; nothing if it names none.

    Clause by clause: where some are said to be met and others not, the latter count; where nothing is said, all that
    are named do.
    """
    unmet: set[str] = set()
    neutral: set[str] = set()
    met: set[str] = set()
    for clause in _clauses(text):
        places = _places(clause)
        # Once for all of its factors, of which there may be thousands. "No factor fails" has a word of failing in it.
        around = neutral
        if places and _NO_FAULT.search(clause):
            around = met
        elif places and _UNMET.search(clause):
            around = unmet
        elif places and _MET.search(clause):
            around = met
        for name, _, end in places:
            # What stands directly at the factor says more than the clause around it.
            item = _ITEM.match(clause, end)
            (around if not item else unmet if item["bad"] else met).add(name)
    # Only where nothing is called unmet, what is merely named is the answer.
    chosen = unmet or (neutral - met)
    return tuple(factor for factor in BANT_FACTORS if factor in chosen)


def find_named(text: str) -> list[Mention]:
    """Return all factors that an answer names, whatever it says of them."""
    found = []
    for line in re.finditer(r"[^\n]+", text):
        found += [Mention(name, line.start() + start, line.start() + end) for name, start, end in _places(line[0])]
    return found


def _clauses(text: str) -> list[str]:
    # One blank for many: what looks for a break behind blanks would look from each of them.
    plain = _BLANKS.sub(lambda found: "\n" if "\n" in found[0] else " ", text)
    return [clause for clause in _BREAK.split(plain) if clause and clause.strip()]


def _places(clause: str) -> list[tuple[str, int, int]]:
    """Find the factors; the word need is one with a capital, in quotes or beside another factor, and not as a verb."""
    found = []
    for match in _FACTOR.finditer(clause):
        name = (match.lastgroup or "").capitalize()
        if name != "Need" or _is_factor(clause, match):
            found.append((name, match.start(), match.end()))
    return found


def _is_factor(clause: str, match: re.Match[str]) -> bool:
    if _VERB.match(clause, match.end()):
        return False
    # A slice before the first character would begin at the end.
    quoted = clause[match.start() - 1 : match.start()] in ("'", '"', "`", "*") and match.start() > 0
    alone = not re.search(r"\w", clause[: match.start()] + clause[match.end() :])
    beside = _BESIDE.search(clause, max(0, match.start() - _NEAR), match.start()) or _BEFORE.match(clause, match.end())
    return match[0] == "Need" or quoted or alone or bool(beside)
