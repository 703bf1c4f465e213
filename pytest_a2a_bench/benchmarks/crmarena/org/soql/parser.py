"""SOQL by recursive descent: clauses and the select list. Conditions are in :mod:`.conditions_parser`."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.crmarena.org.base import OrgError, refuse
from pytest_a2a_bench.benchmarks.crmarena.org.soql.conditions_parser import ConditionParser, parse_expression
from pytest_a2a_bench.benchmarks.crmarena.org.soql.nodes import (
    CLAUSES,
    RESERVED,
    SCOPES,
    Condition,
    Expression,
    Grouping,
    Order,
    Path,
    Query,
    SelectAll,
    SelectByType,
    SelectChildren,
    SelectField,
    SelectItem,
)
from pytest_a2a_bench.benchmarks.crmarena.org.soql.tokens import Cursor

#: Salesforce's own limit on the text of a query.
LONGEST_QUERY = 100_000


def parse_query(text: str) -> Query:
    """Parse a SOQL query.

    :raises OrgError: MALFORMED_QUERY, with the place.
    """
    if len(text) > LONGEST_QUERY:
        raise OrgError("MALFORMED_QUERY", f"SOQL statements cannot be longer than {LONGEST_QUERY} characters.")
    if not text.strip():
        raise OrgError("MALFORMED_QUERY", "SOQL statements cannot be empty or null")
    cursor = Cursor(text)
    query = QueryParser(cursor).query()
    # What is left over was not understood, and guessing would answer another question.
    if cursor.token.kind != "end":
        raise cursor.unexpected()
    return query


class QueryParser:
    """Parser of one query and, through itself, of those inside it."""

    def __init__(self, cursor: Cursor) -> None:
        self._cursor = cursor
        self._conditions = ConditionParser(cursor, self.inner_query)

    def query(self) -> Query:
        """Parse from SELECT to the last clause.

        :raises OrgError: MALFORMED_QUERY.
        """
        cursor = self._cursor
        position = cursor.expect_word("SELECT").position
        select = self._select_list()
        cursor.expect_word("FROM")
        source, alias, aliases = self._from()
        self._using_scope()
        where = self._conditions.condition() if cursor.accept_word("WHERE") else None
        self._with()
        group, having = self._group()
        order = self._order()
        limit_position = cursor.token.position
        limit = cursor.expect_count() if cursor.accept_word("LIMIT") else None
        offset = self._offset()
        self._for()
        return Query(
            select, source, alias, aliases, where, group, having, order, limit, offset, position, limit_position
        )

    def inner_query(self) -> Query:
        """Parse a query in brackets whose opening one is taken, and its closing one.

        :raises OrgError: MALFORMED_QUERY.
        """
        self._cursor.enter()
        query = self.query()
        self._cursor.expect_symbol(")")
        self._cursor.leave()
        return query

    def returned_fields(self, source: Path) -> Query:
        """Parse what stands in brackets after an object in SOSL's RETURNING: fields and clauses.

        :raises OrgError: MALFORMED_SEARCH.
        """
        cursor = self._cursor
        position = cursor.token.position
        select = self._select_list()
        if cursor.accept_word("USING"):
            cursor.expect_word("LISTVIEW")
            cursor.expect_symbol("=")
            cursor.expect_name()
        where = self._conditions.condition() if cursor.accept_word("WHERE") else None
        order = self._order()
        limit = cursor.expect_count() if cursor.accept_word("LIMIT") else None
        offset = self._offset()
        return Query(select, source, None, (), where, None, None, order, limit, offset, position)

    def _select_list(self) -> tuple[SelectItem, ...]:
        items = [self._select_item()]
        while self._cursor.accept_symbol(","):
            items.append(self._select_item())
        return tuple(items)

    def _select_item(self) -> SelectItem:
        cursor = self._cursor
        if cursor.accept_symbol("("):
            return SelectChildren(self.inner_query())
        if cursor.is_word("TYPEOF") and cursor.peek().kind == "name":
            return self._typeof()
        if cursor.is_word("FIELDS") and cursor.peek().text == "(":
            return self._all_fields()
        if cursor.is_word("FROM"):
            raise cursor.unexpected()
        return SelectField(parse_expression(cursor), self._alias())

    def _alias(self) -> str | None:
        # SOQL has aliases without AS, and says so of the word itself.
        if self._cursor.is_word("AS") and self._cursor.peek().kind == "name":
            raise self._cursor.unexpected()
        # A word that begins a clause cannot be an alias.
        if self._cursor.token.kind != "name" or self._cursor.token.upper in RESERVED:
            return None
        return self._cursor.take().text

    def _all_fields(self) -> SelectAll:
        cursor = self._cursor
        position = cursor.take().position
        cursor.expect_symbol("(")
        which = cursor.expect_word("ALL", "STANDARD", "CUSTOM").upper
        cursor.expect_symbol(")")
        return SelectAll(which, position)

    def _typeof(self) -> SelectByType:
        cursor = self._cursor
        cursor.take()
        relationship = cursor.expect_path()
        branches: list[tuple[Path, tuple[Path, ...]]] = []
        # At least one WHEN.
        while cursor.accept_word("WHEN") or not branches:
            sobject = cursor.expect_path()
            cursor.expect_word("THEN")
            branches.append((sobject, self._paths()))
        otherwise = self._paths() if cursor.accept_word("ELSE") else ()
        cursor.expect_word("END")
        return SelectByType(relationship, tuple(branches), otherwise)

    def _paths(self) -> tuple[Path, ...]:
        paths = [self._cursor.expect_path()]
        while self._cursor.accept_symbol(","):
            paths.append(self._cursor.expect_path())
        return tuple(paths)

    def _from(self) -> tuple[Path, str | None, tuple[tuple[str, Path], ...]]:
        source = self._cursor.expect_path()
        alias = self._source_alias()
        aliases: list[tuple[str, Path]] = []
        while self._cursor.accept_symbol(","):
            path = self._cursor.expect_path()
            name = self._source_alias()
            # Without a name of its own the last relationship is the alias.
            aliases.append(((name or path.names[-1]).lower(), path))
        return source, alias, tuple(aliases)

    def _source_alias(self) -> str | None:
        if self._cursor.is_word("AS") and self._cursor.peek().kind == "name":
            self._cursor.take()
        if self._cursor.token.kind != "name" or self._cursor.token.upper in CLAUSES:
            return None
        if self._cursor.token.upper in RESERVED:
            raise self._cursor.unexpected()
        return self._cursor.take().text

    def _using_scope(self) -> None:
        if self._cursor.accept_word("USING"):
            self._cursor.expect_word("SCOPE")
            self._cursor.expect_word(*SCOPES)

    def _with(self) -> None:
        """Accept the access modes, which change nothing for one user who may read all."""
        cursor = self._cursor
        if not cursor.accept_word("WITH"):
            return
        if cursor.is_word("DATA") and cursor.peek().upper == "CATEGORY":
            cursor.take()
            cursor.take()
            # The defaults have no category groups, so that any is unknown.
            group = cursor.expect_name()
            raise refuse(
                "INVALID_FIELD", cursor.query, group.position, f"Data category group '{group.text}' does not exist"
            )
        cursor.expect_word("SECURITY_ENFORCED", "USER_MODE", "SYSTEM_MODE")

    def _group(self) -> tuple[Grouping | None, Condition | None]:
        cursor = self._cursor
        if not cursor.accept_word("GROUP"):
            return None, None
        cursor.expect_word("BY")
        if cursor.is_word("ROLLUP", "CUBE") and cursor.peek().text == "(":
            kind = cursor.take().upper
            cursor.take()
            grouping = Grouping(self._expressions(), kind)
            cursor.expect_symbol(")")
        else:
            grouping = Grouping(self._expressions())
        having = self._conditions.condition() if cursor.accept_word("HAVING") else None
        return grouping, having

    def _expressions(self) -> tuple[Expression, ...]:
        expressions = [parse_expression(self._cursor)]
        while self._cursor.accept_symbol(","):
            expressions.append(parse_expression(self._cursor))
        return tuple(expressions)

    def _order(self) -> tuple[Order, ...]:
        if not self._cursor.accept_word("ORDER"):
            return ()
        self._cursor.expect_word("BY")
        keys = [self._order_key()]
        while self._cursor.accept_symbol(","):
            keys.append(self._order_key())
        return tuple(keys)

    def _order_key(self) -> Order:
        cursor = self._cursor
        expression = parse_expression(cursor)
        descending = cursor.is_word("DESC")
        cursor.accept_word("ASC", "DESC")
        nulls_last = False
        if cursor.accept_word("NULLS"):
            nulls_last = cursor.expect_word("FIRST", "LAST").upper == "LAST"
        return Order(expression, descending, nulls_last)

    def _offset(self) -> int | None:
        cursor = self._cursor
        if not cursor.accept_word("OFFSET"):
            return None
        position = cursor.token.position
        offset = cursor.expect_count()
        # Salesforce's own maximum; whoever needs more is meant to page by Id.
        if offset > 2000:
            raise refuse("NUMBER_OUTSIDE_VALID_RANGE", cursor.query, position, "Maximum SOQL offset allowed is 2000")
        return offset

    def _for(self) -> None:
        """Accept what marks records as seen or locks them: nothing is written here.

        :raises OrgError: for ALL ROWS, which the resource for queries does not take.
        """
        cursor = self._cursor
        while cursor.is_word("FOR", "UPDATE", "ALL"):
            word = cursor.take().upper
            if word == "FOR":
                cursor.expect_word("VIEW", "REFERENCE", "UPDATE")
            elif word == "UPDATE":
                cursor.expect_word("TRACKING", "VIEWSTAT")
            else:
                # What is deleted is asked for by another resource of the API (queryAll), and in Apex by this clause.
                rows = cursor.expect_word("ROWS")
                raise refuse(cursor.code, cursor.query, rows.position, "ALL ROWS not allowed in this context")
