"""Markers with wrong arguments: one usage error names every test of the run and what is wrong with its marker."""

from __future__ import annotations

import fnmatch

import pytest
from harness import Bench

WRONG = (
    ("", "*needs a marker*@pytest.mark.tau2(?airline?)*"),
    ("tau2()", "*domain: missing; valid are: airline, retail, telecom, mock, banking_knowledge"),
    ("tau2('airlines')", "*domain: 'airlines' is not one of airline, *"),
    ("tau2('airline', 'test')", "*takes one positional argument, the domain, and got 2"),
    ("tau2('airline', trails=2, trials=0)", "*does not know trails; *; trials: 0 is not a whole number of at least 1"),
    ("tau2('airline', trials=True)", "*trials: True is not a whole number*"),
    ("tau2('airline', label='a b')", "*label: 'a b' is not made of *"),
    ("tau2('airline', tasks=7.5)", "*tasks: 7.5 is not a list of ids*"),
    ("tau2('airline', tasks=['12', '99'])", "tasks: no task matches '99' in split 'base'; its ids look like: 0, 1*"),
    ("tau2('airline', tasks=lambda task_id: False)", "tasks: the function accepts none of the 50 tasks"),
    ("tau2('mock', split='test')", "tau2 domain 'mock' has no split 'test'; it has: base"),
    ("tau2('banking_knowledge')", "the domain 'banking_knowledge' is not in the installed tau2; *"),
    ("crmarena('mini', category='handling')", "*category: 'handling' is none of handle_time, transfer_count, *"),
    ("crmarena('mini', category=[])", "*category: nothing is none of handle_time, *"),
    ("crmarena('mini', category=3)", "*category: 3 is not a category, a glob pattern or a list of these"),
    ("crmarena('mini', kategory='x')", "*does not know kategory; valid are: domain, *, category; did you mean *"),
    ("crmarena('micro')", "*domain: 'micro' is not one of mini, mini_interactive, original, *"),
    ("crmarena('b2b')", "the domain 'b2b' is data of CRMArena's*"),
    ("crmarena('mini', split='test')", "crmarena domain 'mini' has no split 'test'; it has: base"),
    ("a2a_scenario()", "*there is nothing to say*"),
    ("a2a_scenario(3)", "*what the user says are texts"),
    ("a2a_scenario('Hi', goal='x')", "*not both"),
    ("a2a_scenario('Hi', answers={'(': 'x'})", "*is not a dict of regular expressions and answers*"),
    ("a2a_scenario('Hi', tools=3)", "*is not a class, or a function that makes an object*"),
    (
        "a2a_scenario('Hi', max_turns=0, criteria='polite')",
        "*criteria: 'polite' is not a list of sentences; max_turns: 0 is not*",
    ),
    ("a2a_scenario('Hi', persno='x')", "*does not know persno*"),
    (
        "a2a_scenario('Hi', tools=type('T', (), {'act': lambda self, **more: 1}))",
        "*act takes parameters without names*",
    ),
    ("a2a_scenario('Hi', trials=0)", "*trials: 0 is not a whole number*"),
)
WRONG_CHECKS = (
    ("", "*needs a marker that says which*"),
    ("conformance", "*takes one positional argument*"),
    ('conformance("crad")', "*takes one positional argument*"),
    ('conformance("card", levle="MUST")', "*does not know levle*"),
    ('conformance("protocol", group="nogroup")', "*group names 'nogroup'; there are card, *"),
    ('conformance("protocol", level="must")', "*level names 'must'; there are MUST, SHOULD, MAY*"),
    ('conformance("protocol", id=["SEND-001", "SEND-999"])', "*id names 'SEND-999'; there are *"),
    ('conformance("protocol", binding="JSON-RPC")', "*binding names 'JSON-RPC'; there are JSONRPC, *"),
    ('conformance("protocol", version="2.0")', "*version names '2.0'; there are 1.0, 0.3*"),
    ('conformance("protocol", level=3)', "*level=3 is no text, nor a list of texts"),
    ('conformance("protocol", level=[])', "*level names nothing; there are MUST*"),
    ('conformance("protocol", group="x", level="y")', "*group names 'x'*; level names 'y'*"),
)


@pytest.mark.parametrize(("fixture", "wrong"), [("trial", WRONG), ("conformance_check", WRONG_CHECKS)])
def test_each_is_named_with_its_test(
    bench: Bench, noop_url: str, fixture: str, wrong: tuple[tuple[str, str], ...]
) -> None:
    bench.makepyfile(
        test_it="import pytest\n"
        + "\n".join(
            f"{marker and '@pytest.mark.'}{marker}\ndef test_{number}({fixture}): pass"
            for number, (marker, _) in enumerate(wrong)
        )
    )
    result = bench("--a2a-endpoint", noop_url)
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    expected = [f"ERROR: test_it.py::test_{number}: {problem}" for number, (_, problem) in enumerate(wrong)]
    said = [line for line in result.errlines if line]
    assert len(said) == len(expected)
    assert [
        pattern for line, pattern in zip(said, expected, strict=True) if not fnmatch.fnmatchcase(line, pattern)
    ] == []
