"""The rules for tau2's tasks: what each finds, and what follows from it. Data only."""

from __future__ import annotations

from pytest_a2a_bench.benchmarks.lint import Rule

RULES: tuple[Rule, ...] = (
    Rule(
        "unreadable-task",
        "error",
        "A task is not of tau2's form, its id is there twice, or a split names an id that no task has.",
        "The task cannot be run, or another one runs in its place.",
    ),
    Rule(
        "start-raises",
        "error",
        "The task's initial state cannot be set up.",
        "Every trial of the task ends in an error before the agent is asked.",
        replays=True,
    ),
    Rule(
        "unknown-tool",
        "error",
        "A gold action calls a tool that the domain does not have for whoever calls it.",
        "The evaluator skips the action, so the gold does less than it says.",
        replays=True,
    ),
    Rule(
        "refused-arguments",
        "error",
        "A gold action has arguments that the schema of its tool refuses.",
        "No agent can call the tool like that, and the evaluator may skip the action.",
        replays=True,
    ),
    Rule(
        "unknown-id",
        "warning",
        "A gold action names an id that is nowhere in the database when it is called.",
        "The action looks something up that is not there; some tasks mean that, others are slips.",
        replays=True,
    ),
    Rule(
        "payment-not-owned",
        "error",
        "A gold action pays by, or refunds to, a payment method that the user of the order or booking does not have.",
        "Policies allow the user's own payment methods only, and tools refuse others.",
        replays=True,
    ),
    Rule(
        "gold-raises",
        "error",
        "A gold action raises when the gold is replayed.",
        "The evaluator goes on without it: an agent that does as the gold says meets an error, and need not do it.",
        replays=True,
    ),
    Rule(
        "gold-misses-checks",
        "error",
        "After the gold, an assertion about the environment that the reward asks for does not hold, or raises.",
        "An agent that does exactly what the gold says gets no reward.",
        replays=True,
    ),
    Rule(
        "contradicts-policy",
        "error",
        "A gold action does what the domain's policy rules out, decided by the database alone.",
        "An agent that keeps to the policy gets no reward.",
        replays=True,
    ),
    Rule(
        "text-never-matches",
        "error",
        "An expected text has a comma in it, which the evaluator removes from what the agent says before it looks.",
        "No agent can say it, whatever it says.",
    ),
    Rule(
        "inaction-passes",
        "warning",
        "An agent that does nothing and says nothing of note gets the full reward.",
        "A success says nothing about the agent.",
        replays=True,
    ),
    Rule(
        "gold-changes-nothing",
        "note",
        "The reward compares databases, and the gold leaves them as they were.",
        "The comparison only finds what an agent should not have done.",
        replays=True,
    ),
    Rule(
        "user-only-gold",
        "note",
        "Every gold action is the user's own.",
        "The agent succeeds by talking; its tools are not tested.",
    ),
    Rule(
        "text-not-in-outputs",
        "note",
        "An expected text is in no output of the gold's calls.",
        "The agent must compute or infer it, or phrase it just so.",
        replays=True,
    ),
    Rule(
        "text-in-scenario",
        "warning",
        "An expected text is in the user's own instructions.",
        "An agent that repeats what it was told may be given credit for it.",
    ),
    Rule(
        "short-text",
        "warning",
        "An expected text has one or two characters, which the evaluator looks for anywhere in the agent's words.",
        "It is in dates, prices and ids, so that almost any agent says it.",
    ),
    Rule(
        "forced-order",
        "warning",
        "Two writes of the gold can be made in the other order, and the databases differ only in how lists are sorted "
        "or what new entries are called.",
        "An agent that does the same in another order gets no reward.",
        replays=True,
    ),
    Rule(
        "stop-token-in-scenario",
        "warning",
        "The user's instructions contain a token that ends the conversation.",
        "A user that repeats its instructions ends the trial.",
    ),
    Rule(
        "editions-differ",
        "warning",
        "Another edition of the data has this task with another gold, other checks or another text, or has it not.",
        "Rewards of the two are not comparable, and one of the golds may be wrong.",
        replays=True,
    ),
)
"""In the order of tables."""
