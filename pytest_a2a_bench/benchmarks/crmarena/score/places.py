"""US states in a text, by abbreviation or name."""

from __future__ import annotations

import re

from pytest_a2a_bench.benchmarks.crmarena.score.lines import Mention

_NAMES = """\
AL Alabama|AK Alaska|AZ Arizona|AR Arkansas|CA California|CO Colorado|CT Connecticut|DE Delaware|FL Florida|GA Georgia|\
HI Hawaii|ID Idaho|IL Illinois|IN Indiana|IA Iowa|KS Kansas|KY Kentucky|LA Louisiana|ME Maine|MD Maryland|\
MA Massachusetts|MI Michigan|MN Minnesota|MS Mississippi|MO Missouri|MT Montana|NE Nebraska|NV Nevada|NH New Hampshire|\
NJ New Jersey|NM New Mexico|NY New York|NC North Carolina|ND North Dakota|OH Ohio|OK Oklahoma|OR Oregon|\
PA Pennsylvania|RI Rhode Island|SC South Carolina|SD South Dakota|TN Tennessee|TX Texas|UT Utah|VT Vermont|\
VA Virginia|WA Washington|WV West Virginia|WI Wisconsin|WY Wyoming|DC District of Columbia|DC Washington,? D\\.?C\\.?|\
PR Puerto Rico"""
_STATES = [entry.split(" ", 1) for entry in _NAMES.split("|")]
CODES = frozenset(code for code, _ in _STATES)
STATE_NAMES = {code: name for code, name in _STATES if "\\" not in name}
"""By abbreviation."""
_BY_LENGTH = sorted(_STATES, key=lambda entry: -len(entry[1]))
_NAME = re.compile(
    "|".join(rf"(?P<g{i}>(?<!\w){name}(?!\w)(?!\s+City))" for i, (_, name) in enumerate(_BY_LENGTH)), re.IGNORECASE
)
_CODE = re.compile(r"(?<![\w.-])(?:" + "|".join(sorted(CODES)) + r")(?![\w-])")
# Words that are written in capitals for other reasons.
_WORDS = frozenset({"OK", "ID", "HI", "OR", "IN", "ME", "OH"})


def find_states(text: str) -> list[Mention]:
    """Find the states that a text names, in order. ``OK`` and its like count only where no other state is named."""
    bare = text.strip().strip("\"'`*.").upper()
    if bare in CODES:
        return [Mention(bare, 0, len(text))]
    codes = [Mention(m[0], *m.span()) for m in _CODE.finditer(text)]
    names = [Mention(_BY_LENGTH[int((m.lastgroup or "g0")[1:])][0], *m.span()) for m in _NAME.finditer(text)]
    found = sorted([*codes, *names], key=lambda m: m.start)
    sure = [m for m in found if m.value not in _WORDS or m.end - m.start > 2 or _is_marked(text, m)]
    return sure or found


def _is_marked(text: str, mention: Mention) -> bool:
    """Tell whether an ambiguous code is set apart: quoted, bracketed, after a colon or "is", or among codes."""
    before = text[max(0, mention.start - 12) : mention.start]
    after = text[mention.end : mention.end + 8]
    set_apart = re.search(r"(?:[\"'`(*]|[:=]\s*|\bis\s+|\bstate(?: of)?\s+|\b[A-Z]{2}(?:[,;/]| and| or)\s*)\Z", before)
    lines = text[: mention.start].rpartition("\n")[2] + text[mention.end :].partition("\n")[0]
    if not re.search(r"\w", re.sub(r"\A\s*\d+[.)]", "", lines)):
        return True
    if after.startswith(":"):
        return False
    return bool(set_apart) or bool(re.match(r"(?:,| and)\s+[A-Z]{2}\b", after) and before.strip() == "")
