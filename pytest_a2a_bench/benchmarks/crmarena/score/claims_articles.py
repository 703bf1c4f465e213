"""What an answer claims of an article of rules, which is the answer where it was broken. Pure.

"X was not followed" asserts it, and "not offering a refund violates X" too; so only what stands right beside an article
denies it. Everything else of an answer is read in :mod:`.claims`.
"""

from __future__ import annotations

import re

LEFT_OUT = (
    r"\b(?:except(?: for)?|excluding|other than|apart from|aside from|unlike|ignor(?:e|ing)|disregard(?:ing)?|"
    r"discard(?:ing)?|rul(?:e|ed|ing) out|reject|exclude|eliminate|dismiss)\b"
)
"""Words that leave out what follows them."""

_FILL = r"(?:[\s\"'`*_:(\[]|\b(?:the|an?|knowledge|articles?|policy|rules?|agents?|ids?|of|with|to|for|number)\b)*+\Z"
_KEEPS = r"(?:follow|met\b|meet|satisf|respect|compl(?:y|ied)|observ|obey|adher|fulfil|honou?r|upheld|kept\b|heed)\w*"
_BROKEN_AFTER = re.compile(
    r"[\s\"'`*_)\],]*(?:(?:is|was|are|were|has|had|have)(?: not|n['\u2019]t| never)(?: been| being| \w+ly| even)*+ "
    rf"{_KEEPS}|(?:does|do|did)(?: not|n['\u2019]t) (?:allow|permit|let|grant|accept|promise)\b)",
    re.IGNORECASE,
)
_KEPT_AFTER = re.compile(rf"[\s\"'`*_)\],]*(?:is|was|are|were|has been|have been)(?: \w+ly)?+ {_KEEPS}", re.IGNORECASE)
_KEPT_BEFORE = re.compile(
    r"(?:(?<!not )(?<!never )(?<!n['\u2019]t )(?<!have )(?<!ly )\b(?:follow(?:ed|s)|respect(?:ed|s)|me(?:t|ets)|"
    r"satisfie[ds]|complie[ds] with|adhere[ds] to)|"
    rf"{LEFT_OUT}|\b(?:rather than|instead of|confused|(?:wrong|mistaken) about)\b|"
    r"(?:\b(?:not|never|neither|nor|without|hardly|scarcely)|n['\u2019]t)"
    r"(?: (?:\w+ly|even|in fact|in any way|be|in))*+"
    rf"(?: (?:violat|breach|br(?:eak|oke)|contradict|conflict|ignor)\w*)?)(?: (?:of|with|to))?{_FILL}",
    re.IGNORECASE,
)
# What the agent did not do or what must not be done is no denial, but may be what breaks a rule.
_UNDONE = re.compile(
    r"\b(?:agent|rep|representative|they|he|she|quote|customer|seller|employee)\s(?:do|does|did|would|should|could|can|"
    r"will|must)(?: not|n['\u2019]t)\b(?! (?:\w+ly )?(?:violat|breach|break|contradict|conflict|ignor))|"
    r"\b(?:cannot|can(?: not|['\u2019]t)|could(?: not|n['\u2019]t)) be "
    r"(?!violated|breached|broken)(?:\w+ed|given|made|sold)\b",
    re.IGNORECASE,
)
# Who passes over a rule breaks it; who answers may pass over a value.
_PASSED_OVER = re.compile(
    r"(?<=\w )(?<!\bI )(?<!\bI am )(?<!\bwe )(?<!\bbe )(?<!\bnot )(?:ignor(?:ed|es|ing)|disregard(?:ed|s|ing))\b",
    re.IGNORECASE,
)
# "Followed X but not Y", "X is followed, Y is not".
_BUT_NOT = re.compile(rf"(\b{_KEEPS}(?: with| to)? [^\s,]{{1,40}}+,? but) not\b", re.IGNORECASE)
_ELLIPSIS = re.compile(rf"\b({_KEEPS},? (?:but |and |while )?[^\s,]{{1,40}}+ (?:is|was) not)\b(?! \w)", re.IGNORECASE)
_UNBROKEN = re.compile(r"\bneither\b[^.;\n]{0,120}\b(?:violated|breached|broken)\b", re.IGNORECASE)


def reword(text: str) -> str:
    """Return a text in which articles are said to be broken or followed where that is only meant: "X is, Y is not"."""
    text = _BUT_NOT.sub(r"\1 broke", _ELLIPSIS.sub(r"\1 followed", text))
    return _PASSED_OVER.sub("broke", text)


def without_undone(before: str) -> str:
    """Return what stands before an article without what the agent did not do: that may be what breaks it."""
    return _UNDONE.sub("", before)


def is_kept(before: str, beside: str) -> bool:
    """Tell whether an article between two texts is said to be followed, or not to be broken."""
    return bool(_KEPT_BEFORE.search(before) or (_KEPT_AFTER.match(beside) and not is_broken(beside)))


def is_broken(beside: str) -> bool:
    """Tell whether an article is said to be broken right behind it."""
    return bool(_BROKEN_AFTER.match(beside))


def says_unbroken(text: str) -> bool:
    """Tell whether a text says that none of several was broken."""
    return bool(_UNBROKEN.search(text))
