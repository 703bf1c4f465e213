"""What agents did in a run's trials beside those under test, in words. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from pytest_a2a_bench.model import Party, TrialResult, dollars, percentile, sum_usage
from pytest_a2a_bench.results.stats import count

_DOING = {
    "transfer": "took over (--a2a-transfer)",
    "user": "played the user in",
    "colleague": "was asked in",
}


def lines(results: Sequence[TrialResult]) -> Iterator[str]:
    """Yield what each other agent did: a line with numbers of its own, which are in no other number."""
    names = dict.fromkeys((party.name, party.role) for r in results for party in r.parties)
    for name, role in names:
        own = [(r, p) for r in results for p in r.parties if (p.name, p.role) == (name, role)]
        parts = [p for _, p in own]
        held = f"{name} {_DOING[role]} {len(own)} of {count(len(results), 'conversation')}"
        blamed = [r for r, _ in own if r.blame == name]
        trouble = sum(r.status != "evaluated" for r in blamed)
        missed = f"; {len(blamed) - trouble} missed and {trouble} broken by its doing" if blamed else ""
        yield f"{held}: {_numbers(parts)}{missed}"


def _numbers(parts: Sequence[Party]) -> str:
    latencies = sorted(s for p in parts for s in p.turn_latencies)
    usage = sum_usage(p.usage for p in parts)
    turns, errors = sum(p.turns for p in parts), sum(p.wire.errors for p in parts)
    known = [count(turns, "turn"), count(sum(p.wire.requests for p in parts), "request")]
    known += [f"{errors} failed"] if errors else []
    middle, high = percentile(latencies, 50), percentile(latencies, 95)
    known += [f"p50 {middle:.3f} s, p95 {high:.3f} s"] if middle is not None and high is not None else []
    known += [f"tokens {usage.input_tokens or 0}/{usage.output_tokens or 0}"] if usage.tokens is not None else []
    known += [f"cost {dollars(usage.cost_usd)}"] if usage.cost_usd is not None else []
    return ", ".join(known)
