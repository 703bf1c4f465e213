"""The words of SOQL: functions, clauses, and what cannot be an alias."""

from __future__ import annotations

AGGREGATES = frozenset({"COUNT", "COUNT_DISTINCT", "SUM", "AVG", "MIN", "MAX"})
DATE_FUNCTIONS = frozenset(
    {
        "CALENDAR_MONTH",
        "CALENDAR_QUARTER",
        "CALENDAR_YEAR",
        "DAY_IN_MONTH",
        "DAY_IN_WEEK",
        "DAY_IN_YEAR",
        "DAY_ONLY",
        "FISCAL_MONTH",
        "FISCAL_QUARTER",
        "FISCAL_YEAR",
        "HOUR_IN_DAY",
        "WEEK_IN_MONTH",
        "WEEK_IN_YEAR",
    }
)
#: Functions that change how a value is shown; here labels, formats, currencies and time zones are the stored ones.
RENDERINGS = frozenset({"TOLABEL", "FORMAT", "CONVERTCURRENCY", "CONVERTTIMEZONE"})
FUNCTIONS = AGGREGATES | DATE_FUNCTIONS | RENDERINGS | {"GROUPING"}

#: Words after FROM that begin a clause, so that they are no alias.
CLAUSES = frozenset(
    {"USING", "WHERE", "WITH", "GROUP", "HAVING", "ORDER", "LIMIT", "OFFSET", "FOR", "UPDATE", "ALL", "FROM"}
)
RESERVED = CLAUSES | frozenset(
    {
        "AND",
        "ASC",
        "DESC",
        "EXCLUDES",
        "FIRST",
        "IN",
        "INCLUDES",
        "LAST",
        "LIKE",
        "NOT",
        "NULL",
        "NULLS",
        "OR",
        "SELECT",
        "TRUE",
        "FALSE",
    }
)
SCOPES = frozenset(
    {"DELEGATED", "EVERYTHING", "MINE", "MINE_AND_MY_GROUPS", "MY_TERRITORY", "MY_TEAM_TERRITORY", "TEAM"}
)
COMPARISONS = frozenset({"=", "!=", "<>", "<", "<=", ">", ">="})
