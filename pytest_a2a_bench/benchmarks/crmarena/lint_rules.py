"""What CRMArena's linter looks for: each rule with what it finds and why that matters."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.lint import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "unreadable-task",
        "error",
        "A row of the task file is no task, or its number is there twice.",
        "The whole domain cannot be run.",
    ),
    Rule(
        "malformed-gold",
        "error",
        "A gold is not of the form that its category asks for: a record id of the right object, a month, a state, BANT "
        "factors one by one, a stage.",
        "Only an answer with the same fault is right.",
    ),
    Rule(
        "gold-not-in-org",
        "error",
        "A gold is the id of a record that is in no table of the org.",
        "No query yields it.",
    ),
    Rule(
        "other-metric",
        "error",
        "The task is scored by another metric than its category.",
        "Its rewards are not comparable with those of its category.",
    ),
    Rule(
        "contradicting-tasks",
        "error",
        "Another task asks the same with the same required knowledge, and has another gold.",
        "At most one of them can be right.",
    ),
    Rule(
        "constant-answer-passes",
        "warning",
        "An answer that needs no query passes: None, or a refusal.",
        "An agent that always answers it succeeds; a success says little.",
        tells=True,
    ),
    Rule(
        "echo-passes",
        "warning",
        "An answer that repeats the question and the required knowledge passes.",
        "The gold is in what the agent is told.",
        tells=True,
    ),
    Rule(
        "gold-not-derived",
        "error",
        "The reference solver, which asks the org and knows no gold, comes to another answer (the mini org only).",
        "The gold is wrong, or not the only right one, or cannot be found by queries alone.",
    ),
    Rule(
        "common-gold",
        "warning",
        "Half of a category's tasks, or more, have this one gold.",
        "An agent that always answers it succeeds; a success says little.",
        tells=True,
    ),
    Rule(
        "never-none",
        "warning",
        "No task of a category has the answer None (the mini org only, five tasks of a category or more).",
        "An agent that never says that there is nothing loses nothing by it.",
    ),
    Rule(
        "impossible-field",
        "warning",
        "The question or the required knowledge names a field that no object of the org has.",
        "What it asks for cannot be looked up.",
    ),
    Rule(
        "missing-field",
        "warning",
        "The task lacks the required knowledge that others of its category have, or is interactive without a persona.",
        "The question cannot be understood as it was meant, or its user has no voice.",
    ),
    Rule(
        "repeated-task",
        "note",
        "Another task asks the same with the same required knowledge and the same gold.",
        "Both are one task that counts twice.",
    ),
    Rule(
        "editions-differ",
        "warning",
        "Another edition of the data has this task with another gold or another text, or has it not.",
        "Rewards of the two are not comparable.",
    ),
)
"""In the order of tables."""
