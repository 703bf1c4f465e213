"""Hostile query texts: mutations of valid ones, random words, injections, and sizes that nobody needs."""

import random
from collections.abc import Iterator

VALID = (
    "SELECT Id, Account.Name, Owner.Name FROM Case WHERE Status = 'Closed' AND CreatedDate >= LAST_N_DAYS:90",
    "SELECT Name, (SELECT LastName FROM Contacts WHERE Email != null ORDER BY LastName LIMIT 2) FROM Account LIMIT 3",
    "SELECT Status, COUNT(Id) n, MAX(CreatedDate) FROM Case GROUP BY ROLLUP(Status) HAVING COUNT(Id) > 1",
    "SELECT CALENDAR_MONTH(CreatedDate), COUNT(Id) FROM Case GROUP BY CALENDAR_MONTH(CreatedDate) ORDER BY COUNT(Id)",
    "SELECT Id FROM Account WHERE Id IN (SELECT AccountId FROM Case WHERE NOT (Priority LIKE '%gh' OR OwnerId = null))",
    "SELECT TYPEOF What WHEN Opportunity THEN Amount ELSE Name END FROM Task ORDER BY ActivityDate DESC NULLS LAST",
    "SELECT FIELDS(STANDARD) FROM Opportunity WHERE CloseDate > 2023-01-01 AND Amount < 1e6 LIMIT 10 OFFSET 1",
    "SELECT COUNT() FROM Lead WHERE IsConverted = true AND CreatedDate < 2023-01-01T00:00:00.000+01:00",
    "FIND {pump AND (leak* OR \"two years\")} IN ALL FIELDS RETURNING Case(Id, Subject WHERE Status = 'New' LIMIT 2)",
    "FIND {acme} IN NAME FIELDS RETURNING Account(Name ORDER BY Name), Contact LIMIT 5",
)
_WORDS = (
    "SELECT FROM WHERE AND OR NOT IN LIKE INCLUDES "
    "NULL TRUE GROUP BY ROLLUP CUBE HAVING ORDER ASC DESC NULLS FIRST LAST "
    "LIMIT OFFSET FOR VIEW WITH USING SCOPE TYPEOF WHEN THEN ELSE END FIELDS COUNT SUM AVG MIN MAX COUNT_DISTINCT FIND "
    "RETURNING ALL NAME TODAY LAST_N_DAYS N_YEARS_AGO NEXT_N_MONTHS THIS_FISCAL_YEAR CALENDAR_YEAR DAY_ONLY toLabel "
    "FORMAT GROUPING Id Name Status Account Owner Case Contacts Cases Amount CreatedDate IsActive Description What Foo"
).split()
_SIGNS = "( ) , . : ' \" \\ { } = != < > <= >= <> * ? % _ ; "
_SIGNS += "'\\uD800' '%\\uDFFF_' '\\uD83D\\uDE00' '\\u0000' \\uD83D \ud800 "
_SIGNS += "-- /* */ [ ] @ # $ ~ ` \0 é 漢 \u202e 5 -1 1e400 9999999999 2023-02-30"
_INJECTIONS = (
    '\'; DROP TABLE "Case"; --',
    "' OR 1=1 --",
    "'' UNION SELECT sql FROM sqlite_master",
    "\\' OR Id != null OR Name = \\'",
    'x" UNION SELECT * FROM sqlite_master --',
    "'); ATTACH DATABASE '/tmp/x' AS y; --",
    "' || load_extension('x') || '",
    "%' ESCAPE '\\",
    "\\uD800",
    "\\uDE00\\uD83D",
    "\\u0000",
    "\udfff",
)


def hostile_queries(count: int, seed: int = 0) -> Iterator[str]:
    """Yield query texts, always the same ones for a seed."""
    draw = random.Random(seed)
    makers = (_mutate, _mutate, _mutate, _words, _inject, _large, _noise)
    for _ in range(count):
        yield draw.choice(makers)(draw)


def _tokens(text: str) -> list[str]:
    return text.replace("(", " ( ").replace(")", " ) ").replace(",", " , ").split()


def _mutate(draw: random.Random) -> str:
    tokens = _tokens(draw.choice(VALID))
    for _ in range(draw.randint(1, 4)):
        at = draw.randrange(len(tokens))
        change = draw.randrange(6)
        if change == 0 and len(tokens) > 1:
            del tokens[at]
        elif change == 1:
            tokens.insert(at, draw.choice(tokens))
        elif change == 2:
            tokens[at] = draw.choice(_WORDS)
        elif change == 3:
            tokens.insert(at, draw.choice(_SIGNS.split(" ")))
        elif change == 4:
            other = draw.randrange(len(tokens))
            tokens[at], tokens[other] = tokens[other], tokens[at]
        else:
            tokens[at] = tokens[at][: draw.randint(0, len(tokens[at]))]
    return " ".join(tokens)


def _words(draw: random.Random) -> str:
    pool = (*_WORDS, *_SIGNS.split(" "))
    return draw.choice(("SELECT ", "FIND {", "")) + " ".join(draw.choices(pool, k=draw.randint(1, 40)))


def _inject(draw: random.Random) -> str:
    text = draw.choice(VALID)
    at = draw.choice([text.find("'"), draw.randrange(len(text))])
    return text[: at + 1] + draw.choice(_INJECTIONS) + text[at + 1 :]


def _large(draw: random.Random) -> str:
    size = draw.choice((50, 500, 3_000))
    form = draw.randrange(7)
    if form == 0:
        return "SELECT Id FROM Case WHERE " + "(" * size + "Status = 'x'" + ")" * size
    if form == 1:
        return "SELECT Id FROM Case WHERE " + " AND ".join(["Status != 'x'"] * size)
    if form == 2:
        return "SELECT Id FROM Case WHERE Status IN (" + ", ".join(f"'{n}'" for n in range(size)) + ")"
    if form == 3:
        return "SELECT " + "Account." * min(size, 60) + "Name FROM Contact"
    if form == 4:
        return "SELECT Id FROM Case WHERE Subject LIKE '" + "%a" * size + "'"
    if form == 5:
        return (
            "FIND {"
            + draw.choice(("a* ", "(", '"ab" OR ', "a*b*c*d* ", "NOT ab ")) * size
            + "} RETURNING Knowledge__kav"
        )
    return "SELECT Id, " + "(SELECT Id, " * min(size, 80) + "Id FROM Cases" + ")" * min(size, 80) + " FROM Account"


def _noise(draw: random.Random) -> str:
    return "".join(
        chr(draw.choice((draw.randrange(32, 127), draw.randrange(0x2FFF)))) for _ in range(draw.randint(0, 120))
    )
