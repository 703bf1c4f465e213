"""Read a reply in the dialects of the tasks about an org: one action, in any form, and what is wrong with it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pytest_a2a_bench.model import DialectFinding, Part
from pytest_a2a_bench.translate.base import DecodedReply
from pytest_a2a_bench.translate.org_actions import EXECUTE, Findings, Found, find_actions, read_data
from pytest_a2a_bench.translate.parsing import RAW_LIMIT

_DIALECT = {"call": "tool_call"}


def read_org_reply(parts: Sequence[Part], dialect: str, *, prose_allowed: bool = False) -> DecodedReply:
    """Read a reply. Never raises, whatever the parts contain.

    Of several actions the first query counts, otherwise the first answer, as upstream's parser has it.

    :param dialect: the one that the agent was addressed in; another one's form is read too, and is a finding.
    :param prose_allowed: whether words beside the action are welcome.
    """
    found, prose, raw, suspicious = _gather(parts)
    if not found:
        return _nothing(prose, raw, suspicious, dialect)
    chosen = next((f for f in found if f.name == EXECUTE), found[0])
    findings = []
    form = _DIALECT.get(chosen.form, chosen.form)
    if form != dialect:
        message = f"the {dialect} dialect was asked for; this action is written in {form}"
        findings.append(DialectFinding("other-dialect", message, raw))
    if chosen.fault:
        findings.append(DialectFinding("malformed-action", chosen.fault, raw))
    if len({(f.name, f.payload) for f in found}) > 1:
        message = f"one action at a time is allowed; of the {len(found)} in this reply only one counts"
        findings.append(DialectFinding("several-calls", message, raw))
    if prose and not prose_allowed:
        findings.append(DialectFinding("text-beside-call", "text beside an action reaches nobody", prose[:RAW_LIMIT]))
    return DecodedReply(prose or None, (chosen.call(),), tuple(findings), dialect=form)


def _gather(parts: Sequence[Part]) -> tuple[list[Found], str, str, bool]:
    """Return the actions, the prose, the reply as it came (bounded), and whether it looks like an action."""
    found = [f for p in parts if p.kind == "data" and (f := read_data(p.data)) is not None]
    texts = [p.text for p in parts if p.kind == "text" and p.text]
    scanned = _scan(texts)
    known = {(f.name, f.payload) for f in found}
    found += [f for f in scanned.actions if (f.name, f.payload) not in known]
    unread = [p.data for p in parts if p.kind == "data" and p.data not in (None, {}, []) and read_data(p.data) is None]
    raw = ("\n".join(texts) or (_show(unread[0]) if unread else ""))[:RAW_LIMIT]
    return found, scanned.prose, raw, scanned.suspicious or bool(unread)


def _scan(texts: Sequence[str]) -> Findings:
    # Some servers stream one text as many parts, torn anywhere.
    whole = find_actions("".join(texts))
    if whole.actions or len(texts) < 2:
        return whole
    return find_actions("\n".join(texts))


def _nothing(prose: str, raw: str, suspicious: bool, dialect: str) -> DecodedReply:
    if not raw.strip():
        message = "the reply has neither text nor an action"
        return DecodedReply(findings=(DialectFinding("empty-reply", message),))
    if suspicious:
        finding = DialectFinding("unreadable-call", "this looks like an action but cannot be read", raw)
    else:
        finding = DialectFinding("prose-where-action-asked", f"the {dialect} dialect asks for an action", raw)
    text = prose or raw
    return DecodedReply(text if text.strip() else None, findings=(finding,), unreadable=suspicious)


def _show(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=str)
    except (ValueError, RecursionError):
        return f"a {type(value).__name__} that is nested too deeply"
