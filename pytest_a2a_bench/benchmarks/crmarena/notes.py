"""What must be known of CRMArena's numbers, in words for the header, the summary and files for merge requests. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    from pytest_a2a_bench.model import TrialResult

_SCORINGS = {"compat": "upstream's, bug for bug", "fixed": "without upstream's bugs"}


def name_variant(drift: str | None, rot: bool) -> str:
    """Return the name of a changed org (``drift low, rot``); empty where it is as published."""
    return ", ".join([f"drift {drift}"] * bool(drift) + ["rot"] * rot)


def variant_of(provenance: Mapping[str, Any]) -> str:
    """Return what sets a stored result apart: upstream's own rules, and the name of a changed org."""
    official = ["official"] * (provenance.get("profile") == "official")
    official += [str(provenance["strategy"])] if provenance.get("strategy") not in (None, "react") else []
    return ", ".join([*official, *filter(None, [_org_of(provenance)])])


def _org_of(provenance: Mapping[str, Any]) -> str:
    """Return the name of the org that a stored result is of."""
    return str(provenance.get("variant") or "")


def describe_changes(settings: Settings) -> str:
    """Say for the header how options change the org, and whose rules are followed where they are not ours."""
    chosen = CrmOptions.of(settings)
    variant = name_variant(chosen.drift, chosen.rot)
    changed = [f"CRMArena's org changed: {variant}"] * bool(variant)
    return "; ".join(_published(chosen) + changed)


def _published(chosen: CrmOptions) -> list[str]:
    if chosen.profile != "official":
        return []
    agent = f" (strategy {chosen.strategy})" if chosen.strategy != "react" else ""
    return [f"CRMArena as its code was published{agent}"]


def describe_asker(domains: Sequence[str], settings: Settings) -> str:
    """Say for the header how answers are scored, where every domain's tasks are questions and nobody plays a user."""
    # Where a user speaks, the header says who plays it instead.
    if any(domain.endswith(INTERACTIVE) for domain in domains):
        return ""
    chosen = CrmOptions.of(settings)
    read = "by a judge" if settings.judge_llm else "by rules"
    return f"CRMArena profile {chosen.profile}, scoring {chosen.scoring}, answers read {read}"


def describe_method(results: Sequence[TrialResult]) -> str:
    """Say how answers were scored, and by what they were read."""
    scored = [r.provenance for r in results if r.provenance.get("scoring")]
    if not scored:
        return ""
    scorings = Counter(str(p["scoring"]) for p in scored)
    explained = Counter({f"{n} ({_SCORINGS[n]})" if n in _SCORINGS else n: count for n, count in scorings.items()})
    extractors = Counter(str(p["extractor"]) for p in scored if p.get("extractor"))
    return f"scoring: {_counted(explained)}; answers extracted by: {_counted(extractors)}"


def describe_results(results: Sequence[TrialResult]) -> Iterator[str]:
    """Say what is not as the benchmark's authors published it."""
    told = [r.provenance for r in results]
    yield from _describe_sources([p["source"] for p in told if isinstance(p.get("source"), Mapping)])
    if any(p.get("aided") for p in told):
        yield "the agent was shown the general domain details too (--a2a-crm-aided)"
    official = [p["official"] for p in told if isinstance(p.get("official"), Mapping)]
    if official:
        yield f"{len(official)} of these results are by upstream's own rules and texts (--a2a-crm-official)"
    if any(not code.get("published") for code in official):
        yield "the code of --a2a-crm-official is not, byte for byte, the one that the profile was certified against"
    if any(p.get("twins") for p in told):
        yield _show_twins(results)
    variants = Counter(v for p in told if (v := _org_of(p)))
    if variants:
        named = ", ".join(f"{name} ({count})" if len(variants) > 1 else name for name, count in variants.most_common())
        yield f"the org was changed: {named}; these are not results of the plain benchmark"


def _show_twins(results: Sequence[TrialResult]) -> str:
    """Say of the privacy tasks that have benign twins what came of them, in three numbers."""
    found: Counter[str] = Counter()
    for result in results:
        if result.provenance.get("twins") and result.reward_info is not None:
            metrics = result.reward_info.info.get("metrics")
            known = metrics if isinstance(metrics, Mapping) else {}
            found[next((str(name) for name, value in known.items() if value), "unanswered")] += 1
    unanswered = f", {found['unanswered']} without an answer" if found["unanswered"] else ""
    return (
        f"privacy by twins: {found['kept']} of {found.total()} kept the secret and told what may be told, "
        f"{found['leak']} leaked, {found['over_refusal']} refused too much{unanswered}"
    )


def _describe_sources(sources: Sequence[Mapping[str, Any]]) -> Iterator[str]:
    if any(source.get("source") == "mini" for source in sources):
        yield "the mini org is our own: its numbers are not comparable with CRMArena's"
    if any(source.get("source") != "mini" and not source.get("official") for source in sources):
        yield "not every data file is, byte for byte, one that CRMArena published"


def _counted(found: Counter[str]) -> str:
    if len(found) <= 1:
        return next(iter(found), "none")
    return ", ".join(f"{value} ({count})" for value, count in found.most_common())
