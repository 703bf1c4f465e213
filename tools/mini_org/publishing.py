"""Articles as a company keeps them: sections of some length, and older versions that say something else."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta

from mini_org.building import SeededRandom
from mini_org.company import Company

VERSION_RULE = (
    "- An article may stand there in several versions under one title. Of those that are no drafts the one with the"
    " highest version number is in force, and no other counts or is named."
)
"""Part of the required knowledge of every task that reads articles."""

_FIRST_DAY = date(2019, 3, 4)

_PURPOSE = (
    "This page is kept by the desk that answers for it, and everybody who talks to customers is expected to know it.",
    "It was written after several plants had been told different things on the same morning by different colleagues.",
    "Read it to the end before you quote from it, because customers keep what we write for years.",
    "It applies to all plants that we deliver to, in whichever territory, and whoever looks after them.",
    "New colleagues go through it in their first week, together with somebody who has worked with it for a while.",
)
_USE = (
    "When a case does not seem to fit, write down what is different and ask the desk before you promise anything.",
    "Say it in the customer's own words, and avoid the names that we use for things among ourselves in the office.",
    "Keep a note with the record, so that whoever takes over can see what was said, by whom and when.",
    "Do not make an exception because somebody is in a hurry; whoever asks kindly is to be treated as whoever shouts.",
    "If two pages seem to say different things, the one with the newer version wins, and the desk wants to hear of it.",
    "What the person on the telephone was told before by a dealer is not ours to confirm, and not ours to deny either.",
)
_BACKGROUND = (
    "The workshop, the accounts and the service desk sat together for this, and each of them gave up something for it.",
    "Earlier editions had been copied into many mails, which is how some plants still believe that these are in force.",
    "Nobody remembers who drew the first edition up; a framed print of it hangs beside the old boilers.",
    "The auditors looked at it in spring and had no remarks except for one misspelt name, now put right.",
    "We measured for half a year what the former wording had cost us, and the figures persuaded those who liked it.",
    "There is a translation for the plants abroad, which follows some weeks later.",
)


def add_article(company: Company, title: str, answer: str, summary: str, *, older: Sequence[str] = ()) -> str:
    """Write an article and its older versions; return the id of the one in force.

    :param answer: what it says, in force.
    :param older: what earlier versions said, the oldest first; their rows stand before the one in force.
    """
    rng = SeededRandom(company.seed, f"article {title}")
    day = _FIRST_DAY + timedelta(days=rng.between(0, 300))
    key = ""
    for number, text in enumerate((*older, answer), 1):
        until = day + timedelta(days=rng.between(200, 420))
        last = number == len(older) + 1
        state = f"in force since {day}" if last else f"in force from {day} to {until}, replaced by version {number + 1}"
        key = company.tables.add(
            "Knowledge__kav",
            Title=title,
            FAQ_Answer__c=article_body(rng, f"Version {number}, {state}.", text),
            Summary=summary,
            UrlName="-".join([*_words(title), f"v{number}"]),
        )
        day = until + timedelta(days=1)
    return key


def _words(title: str) -> list[str]:
    return "".join(char if char.isalnum() else " " for char in title.lower()).split()


def article_body(rng: SeededRandom, head: str, text: str) -> str:
    """Return an article's text: its version, and what it says between sections that say nothing that is asked."""
    return "\n\n".join(
        (
            head,
            "## Purpose\n" + " ".join(rng.sample(_PURPOSE, 3)),
            "## What holds\n" + text,
            "## How to use this page\n" + " ".join(rng.sample(_USE, 4)),
            "## Background\n" + " ".join(rng.sample(_BACKGROUND, 4)),
        )
    )
