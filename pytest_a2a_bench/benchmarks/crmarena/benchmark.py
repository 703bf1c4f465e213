"""Run one trial of a CRMArena task: org, agent, simulated user, conversation and score."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping
from typing import Any, cast

from pytest_a2a_bench import dialects
from pytest_a2a_bench.benchmarks.base import Outcome, TrialContext
from pytest_a2a_bench.benchmarks.conversation import Conversation
from pytest_a2a_bench.benchmarks.crmarena import ORG_DIALECTS
from pytest_a2a_bench.benchmarks.crmarena import episode as rules
from pytest_a2a_bench.benchmarks.crmarena.actions import (
    EXECUTE,
    RESPOND,
    read_action,
    render_error,
    render_result,
)
from pytest_a2a_bench.benchmarks.crmarena.dialects import ACTION_HOW, OFFICIAL, OFFICIAL_TOOLS
from pytest_a2a_bench.benchmarks.crmarena.domains import OpenDomain, open_domain, open_source
from pytest_a2a_bench.benchmarks.crmarena.episode import Episode, Observation
from pytest_a2a_bench.benchmarks.crmarena.official import (
    OfficialEpisode,
    OfficialTexts,
    OfficialToolEpisode,
    official_user,
    prepare_query,
    tools_of,
)
from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.benchmarks.crmarena.org import Org, OrgError
from pytest_a2a_bench.benchmarks.crmarena.prompt import (
    AgentUser,
    ScriptedUser,
    brief,
    with_colleagues,
    write_instructions,
)
from pytest_a2a_bench.benchmarks.crmarena.score import (
    ANSWERED,
    UNJUDGED,
    Scoring,
    asked,
    rescore,
    score,
    score_submitted,
    texts_of,
    unanswered,
    worth,
)
from pytest_a2a_bench.benchmarks.crmarena.score.answers import Judge
from pytest_a2a_bench.benchmarks.crmarena.suite import NAME, SPLIT, name_variant
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask, Provenance
from pytest_a2a_bench.benchmarks.models import ModelUser, reach_of
from pytest_a2a_bench.benchmarks.noise import Written, without_newest
from pytest_a2a_bench.benchmarks.participants import Colleagues
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.dialects.auto import NATIVE
from pytest_a2a_bench.errors import (
    A2ABenchError,
    AgentOutcomeError,
    EvaluatorError,
    InfrastructureError,
    JudgeMissingError,
)
from pytest_a2a_bench.model import Briefing, Reward, ToolCall, Usage
from pytest_a2a_bench.model.messages import Bounds

_NAMED = ("org", "profile", "scoring", "aided", "drift", "rot", "max_turns")
"""Options that a result's provenance states as they are."""


class CrmArenaBenchmark:
    """CRMArena and CRMArena-Pro as a :class:`~pytest_a2a_bench.benchmarks.base.Benchmark`."""

    name = NAME
    prompt: Briefing = Briefing("")
    """The first message without the data, which have a version of their own: for fingerprints."""

    def data_version(self, domain: str, settings: Settings) -> str:
        """Return the identity of a domain's tasks and rows: their source, and the hashes of its files."""
        # Sorted, as this goes into a fingerprint.
        return json.dumps(dataclasses.asdict(open_domain(domain, settings).provenance), sort_keys=True)

    def run_trial(self, context: TrialContext) -> Outcome:
        """Run one trial; see :class:`~pytest_a2a_bench.benchmarks.base.Benchmark`."""
        domain = open_domain(context.key.domain, context.settings)
        return _Trial(domain, asked(domain.task(context.key.task_id), context.settings), context).run()

    rescore = staticmethod(rescore)

    def evaluator(self, domain: str, settings: Settings) -> str:
        """Return the benchmark's name in results."""
        return _describe(open_source(domain, settings).provenance)


BENCHMARK = CrmArenaBenchmark()


class _Trial:
    """The parts of one running trial."""

    def __init__(self, domain: OpenDomain, task: CrmTask, context: TrialContext) -> None:
        self.domain = domain
        self.task = task
        self.context = context
        settings = context.settings
        self.chosen = chosen = CrmOptions.of(settings)
        self.texts = texts = texts_of(chosen)
        self.code = tools_of(chosen)
        # Before the first message: no conversation is paid for that cannot be scored.
        is_refusal = task.metric == "privacy_rejection" and self.code is None
        if is_refusal and task.asked_twin is None and not settings.judge_llm:
            raise JudgeMissingError(UNJUDGED)
        # Only where one is named: without it answers are read by rules.
        self.judge = (
            Judge(settings.judge_llm, reach_of(settings), context.checkpoint, texts=texts)
            if settings.judge_llm
            else None
        )
        self.user = make_user(task, settings, context, texts) if task.interactive else None
        briefing = brief(task, domain.org.schema, domain=domain.name, aided=chosen.aided, max_turns=chosen.max_turns)
        self.colleagues: Colleagues | None = None
        if "colleague" in context.parties:
            most, names = settings.colleague_turns, context.parties.named("colleague")
            seats = [context.parties.seat("colleague", name) for name in names]
            self.colleagues = Colleagues(seats, most, context.checkpoint)
            briefing = with_colleagues(briefing, names, most)
        dialect = settings.dialect
        if texts is not None:
            # An agent with tools is spoken to in upstream's text form, or in a dialect that was chosen.
            chosen_dialect = OFFICIAL_TOOLS.name if dialect == "auto" else dialect
            dialect = OFFICIAL.name if self.code is None else chosen_dialect
            briefing = self._official_briefing(briefing, texts, as_text=dialect == OFFICIAL_TOOLS.name)
        self.conversation = Conversation(
            session=context.session,
            briefing=briefing,
            dialect=dialect,
            resend=settings.history == "full",
            before_turn=context.checkpoint,
            bounds=Bounds.of(settings.reply_limits),
            native=context.native,
        )
        if context.noise is not None:
            context.noise.reads, context.noise.styled = {EXECUTE}, isinstance(self.user, ModelUser)
            # An org has no writes in a conversation: a copy of it that lags behind lacks the newest record.
            context.noise.stale = lambda call: self._lagging(call)
        if self.code is not None and texts is not None:
            self.episode: Episode = OfficialToolEpisode(
                query=task.query.strip(),
                execute=lambda query: ask(domain.org, query),
                rule=texts.rule(chosen.strategy),
                worth=lambda content: worth(task, content),
                org=domain.org,
                code=self.code,
                tools=frozenset(tool.name for tool in briefing.tools),
                as_text=dialect == OFFICIAL_TOOLS.name,
            )
            return
        self.episode = (Episode if texts is None else OfficialEpisode)(
            query=task.query if texts is not None else task.query.strip(),
            execute=lambda query: ask(domain.org, query, prepare=prepare_query if texts is not None else str),
            user=self.user,
            colleagues=self.colleagues,
            max_turns=chosen.max_turns,
            max_user_turns=chosen.max_user_turns,
            rule=texts.rule(chosen.strategy) if texts is not None else rules.RULE,
            prose_answers=context.native is not None,
        )

    def _official_briefing(self, briefing: Briefing, texts: OfficialTexts, *, as_text: bool) -> Briefing:
        """Return the prompt and the tools of one of upstream's agents."""
        described = self.code.described if self.code is not None and as_text else ""
        policy = texts.system_prompt(self.task, self.domain.org.schema, self.chosen, described)
        if self.code is None:
            return dataclasses.replace(briefing, policy=policy)
        offered = self.code.offered_by(self.chosen.strategy)
        return Briefing(policy.strip(), offered, briefing.facts, speaking_tool=RESPOND)

    def _lagging(self, call: ToolCall) -> str | None:
        action = read_action(call)
        found = Written.read(ask(self.domain.org, action.text).text) if action.name == EXECUTE else None
        return without_newest(found) if found is not None else None

    def run(self) -> Outcome:
        clock = time.monotonic()
        note, reward = "", None
        error: A2ABenchError | None = None
        # The agent's own end is an outcome; anything of the network's is not.
        try:
            self._converse()
        except AgentOutcomeError as exc:
            self.episode.give_up()
            note = str(exc)
        except InfrastructureError as exc:
            error = exc
        # Before the evaluation: a judge's time is not the agent's.
        duration = time.monotonic() - clock
        self.conversation.close()
        if error is None:
            # If the evaluation fails the conversation is kept, and can be scored again.
            try:
                reward = self._evaluate(note)
            except (InfrastructureError, EvaluatorError) as exc:
                error = exc
        return self._outcome(duration, reward, error)

    def _converse(self) -> None:
        message = self.episode.open()
        while self.episode.ended is None:
            said = self.conversation.attempt(message)
            # Once the dialect has settled, the rule is given in its words.
            if self.texts is None:
                self.episode.rule = rule_for(self.conversation.settled or self.conversation.dialect)
            message = self.episode.step(said)
            for finding in self.episode.findings:
                self.conversation.note(finding)

    def _evaluate(self, note: str) -> Reward:
        task, episode, chosen = self.task, self.episode, self.chosen
        if episode.ended not in ANSWERED:
            return unanswered(task, str(episode.ended), episode.transcript, note)
        if self.code is not None:
            return score_submitted(task, episode.transcript, chosen.threshold)
        return score(
            task,
            episode.answer,
            episode.transcript,
            scoring=cast("Scoring", chosen.scoring),
            judge=self.judge,
            threshold=chosen.threshold,
        )

    def _outcome(self, duration: float, reward: Reward | None, error: A2ABenchError | None) -> Outcome:
        user_usage = self.user.usage if isinstance(self.user, ModelUser) else Usage()
        ended = "infrastructure_error" if isinstance(error, InfrastructureError) else self.episode.ended
        return Outcome(
            reward=reward,
            termination_reason=ended,
            transcript=tuple(self.episode.transcript),
            findings=tuple(self.conversation.findings),
            dialect=self.conversation.settled or self.conversation.dialect,
            splits=(SPLIT,),
            category=self.task.category,
            agent_usage=self.conversation.usage,
            # Judge and user are paid from the same pocket.
            user_usage=user_usage + (self.judge.usage if self.judge else Usage()),
            provenance=self.provenance(reward),
            error=error,
            duration=duration,
        )

    def provenance(self, reward: Reward | None) -> Mapping[str, Any]:
        """Return a result's provenance.

        ``extractor`` read the answer and ``judge`` recognised a refusal: ``rules``, a model's name
        (for the extractor also ``literal``: the answer was the gold, letter by letter); None where nothing was to do.
        """
        settings, source, chosen = self.context.settings, self.domain.provenance, self.chosen
        used = reward.info if reward is not None else {}
        user = self.user.kind if self.user is not None else "none"
        colleagues, asked_counts = self._colleagues()
        return {
            "benchmark": _describe(source),
            "category": self.task.category,
            "interactive": self.task.interactive,
            "metric": self.task.metric,
            "source": dataclasses.asdict(source),
            **{name: getattr(chosen, name) for name in _NAMED},
            **self._code(),
            "threshold": chosen.threshold if self.task.metric == "fuzzy_match" else None,
            "extractor": _name_model(used.get("extractor"), settings),
            "judge": _name_model(used.get("judge"), settings),
            "judge_llm": settings.judge_llm,
            **self._shortcut(reward),
            "variant": name_variant(chosen.drift, chosen.rot) or None,
            "user": user,
            "user_llm": settings.user_llm if user == "llm" else None,
            **({"user_agent": self.context.parties.seat("user").further.agent} if user == "a2a" else {}),
            "max_user_turns": chosen.max_user_turns if self.user is not None else None,
            **({"twins": True} if self.task.asked_twin is not None else {}),
            **({"prose_answers": True} if self.episode.prose_answers else {}),
            "measured": {**self.episode.counts.to_json(), **asked_counts},
            **({"org_day": list(day)} if (day := self.domain.org.day) else {}),
            **colleagues,
            "split": SPLIT,
            "dialect_option": settings.dialect,
            "history": settings.history,
            "tagged": settings.tag_trials,
        }

    def _shortcut(self, reward: Reward | None) -> dict[str, str]:
        """Return which shortcut a wrong answer is that of, in an org with rows that are made for them."""
        caught = self.domain.traps.get(self.task.task_id, {})
        answer = self.episode.answer if self.episode.ended in ANSWERED else None
        if not caught or reward is None or reward.success or not answer:
            return {}
        for name, said in caught.items():
            values = tuple(said.split(", ")) if self.task.kind.answer in ("ids", "bant") else (said,)
            if score(dataclasses.replace(self.task, answers=values), answer, scoring="fixed").success:
                return {"shortcut": name}
        return {}

    def _code(self) -> dict[str, Any]:
        """Return which code of upstream's was followed, and by which prompt."""
        if self.texts is None:
            return {}
        files = {**self.texts.files, **(self.code.files if self.code is not None else {})}
        official = {"files": files, "published": self.texts.is_published}
        return {"official": official, "strategy": self.chosen.strategy, "privacy_prompt": self.chosen.privacy_prompt}

    def _colleagues(self) -> tuple[dict[str, Any], dict[str, int]]:
        """Return which colleagues the agent could ask, without whom results are of another kind, and the counts."""
        if self.colleagues is None:
            return {}, {}
        parties, most = self.context.parties, self.context.settings.colleague_turns
        agents = {name: parties.seat("colleague", name).further.agent for name in self.colleagues.names}
        provenance = {"colleague": agents if len(agents) > 1 else next(iter(agents.values())), "colleague_turns": most}
        return provenance, {"questions": self.colleagues.asked, "question_errors": self.colleagues.failed}


def ask(org: Org, query: str, *, prepare: Callable[[str], str] = str) -> Observation:
    """Ask an org one query and write its answer as the agent reads it.

    :param prepare: turns the agent's text into the org's query; raises :class:`OrgError` where that is refused.
    :raises InfrastructureError: if a live org cannot be reached.
    """
    clock = time.perf_counter()
    try:
        result = org.run(prepare(query))
    except OrgError as refusal:
        return Observation(render_error(refusal), error=True, seconds=time.perf_counter() - clock)
    # The org's own clock: what writing the records takes is not its time.
    return Observation(render_result(result), result.rows_read, seconds=result.seconds)


def make_user(
    task: CrmTask, settings: Settings, context: TrialContext, texts: OfficialTexts | None = None
) -> ScriptedUser | ModelUser | AgentUser:
    """Make the user of an interactive task.

    :param texts: upstream's own, by which a model plays the user; None for ours.
    """
    if settings.user_kind == "a2a":
        return AgentUser(task, context.parties.seat("user"), context.checkpoint, Bounds.of(settings.reply_limits))
    if settings.user_llm is None:
        return ScriptedUser(task)
    if texts is not None:
        return official_user(task, texts, settings.user_llm, settings.user_llm_args, context.checkpoint)
    # Temperature 0 unless the user says otherwise, so that users differ as little as possible.
    arguments = {"temperature": 0.0, **settings.user_llm_args}
    style = context.noise.instruction if context.noise is not None else ""
    return ModelUser(write_instructions(task) + style, settings.user_llm, arguments, context.checkpoint)


def _describe(source: Provenance) -> str:
    return f"crmarena ({source.name})"


def _name_model(used: str | None, settings: Settings) -> str | None:
    return settings.judge_llm if used == "llm" else used


def rule_for(dialect: str) -> str:
    """Return the answer to a reply that was no action: the rule, and the form of actions where that is one text."""
    if dialect == "auto":
        return f"{rules.RULE}\n\n{ACTION_HOW}"
    if dialect == NATIVE.name:
        return f"{rules.RULE} Both are tools; an answer may be plain text at the end of your turn as well."
    if dialect not in ORG_DIALECTS:
        return f"{rules.RULE} Both are tools; text outside of a tool call reaches nobody."
    how = "\n".join(part.text for part in dialects.get(dialect).reminder())
    return f"{rules.RULE}\n\n{how}" if dialect != "crm_entropic" else how
