"""Lint of CRMArena's tasks: golds that are not of their form or in no row, questions that a constant answers.

Golds appear in no finding, as they appear in no result.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import re
import sqlite3
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from functools import lru_cache
from pathlib import Path

from pytest_a2a_bench.benchmarks.crmarena import MINI
from pytest_a2a_bench.benchmarks.crmarena.domains import open_source
from pytest_a2a_bench.benchmarks.crmarena.lint_rules import RULES
from pytest_a2a_bench.benchmarks.crmarena.mini.near_misses import finds_gold
from pytest_a2a_bench.benchmarks.crmarena.options import PREFIX
from pytest_a2a_bench.benchmarks.crmarena.org.ids import checksum, is_record_id, spellings
from pytest_a2a_bench.benchmarks.crmarena.org.soql.scope import quote
from pytest_a2a_bench.benchmarks.crmarena.player import REFUSAL
from pytest_a2a_bench.benchmarks.crmarena.score import THRESHOLD, score
from pytest_a2a_bench.benchmarks.crmarena.score.metrics import f1_score, split_gold
from pytest_a2a_bench.benchmarks.crmarena.sources import PUBLISHED, available_domains, files, opening
from pytest_a2a_bench.benchmarks.crmarena.sources.directory import DirectorySource
from pytest_a2a_bench.benchmarks.crmarena.sources.opening import MiniSource, Source
from pytest_a2a_bench.benchmarks.crmarena.sources.rows import try_tasks
from pytest_a2a_bench.benchmarks.crmarena.tasks import BANT_FACTORS, MONTHS, NONE, STAGES, CrmTask
from pytest_a2a_bench.benchmarks.lint import DomainLint, Linter, LintFinding, LintRequest
from pytest_a2a_bench.benchmarks.lint_known import code_digest
from pytest_a2a_bench.benchmarks.suite import INTERACTIVE
from pytest_a2a_bench.errors import ConfigurationError, EvaluatorError
from pytest_a2a_bench.settings import Settings


def domains(request: LintRequest) -> tuple[str, ...]:
    """Return the domains of a request: the directory's, or the mini org's and those that ``--crm-data`` names."""
    settings = _settings(request.directory, request)
    found = available_domains(settings)
    if request.directory is None:
        return (*MINI, *found)
    if not found:
        raise ConfigurationError(f"{request.directory} has no tasks of CRMArena's ({', '.join(PUBLISHED)})")
    return found


def lint(request: LintRequest, domain: str) -> DomainLint:
    """Look at one domain with every rule."""
    if request.split != "base":
        raise ConfigurationError(f"crmarena domain {domain!r} has no split {request.split!r}; it has: base")
    settings = _settings(request.directory, request)
    tasks, findings, file = _read(settings, domain)
    for task in tasks:
        findings += _alone(task)
    findings += [*_together(tasks), *_unlike_others(tasks), *_common(tasks)]
    notes = []
    try:
        source = opening.open_source(domain, settings)
        findings += _in_no_row(tasks, _record_ids(source))
        findings += _impossible(tasks, source)
        if isinstance(source, MiniSource):
            findings += [*_not_derived(tasks, source), *_never_none(tasks)]
    except ConfigurationError as error:
        notes.append(f"{domain}: whether golds are in the org: {error}")
    if request.against is not None:
        findings += _other_edition(tasks, domain, request)
    order = {task.task_id: place for place, task in enumerate(tasks)}
    findings.sort(key=lambda f: order.get(f.task_id, -1))
    done = tuple(dataclasses.replace(f, domain=domain, file=file) for f in findings)
    return DomainLint(domain, len(tasks), done, tuple(notes))


def _settings(directory: Path | None, request: LintRequest) -> Settings:
    """Return the settings under which a directory's tasks are read; rows may be missing."""
    own = dict(request.settings.benchmark_options)
    if directory is not None:
        own[f"{PREFIX}data"] = str(directory)
    # A live org is asked by nobody here; it only means that tasks are read where there are no rows.
    return dataclasses.replace(request.settings, benchmark_options={**own, f"{PREFIX}org": "salesforce"})


def _read(settings: Settings, domain: str) -> tuple[Sequence[CrmTask], list[LintFinding], str]:
    """Return a domain's tasks, what is wrong with other rows, and the file."""
    # Not the one that this process may have kept: files are read as they are now.
    source = opening.open_source(domain, settings)
    if not isinstance(source, DirectorySource):
        return source.tasks(), [], ""
    paths = files.find_tasks(source.root, domain)
    tasks, problems = try_tasks(files.read_table(paths), interactive=domain.endswith(INTERACTIVE))
    wrong = [LintFinding("unreadable-task", "", "", f"{place}: {what}") for place, what in problems]
    return tasks, wrong, str(paths[0])


# --- a task alone -----------------------------------------------------------------------------------------------------


def _alone(task: CrmTask) -> Iterator[LintFinding]:
    if reason := _malformed(task):
        yield _find(task, "malformed-gold", reason, "/answer")
    if task.metric != task.kind.metric:
        yield _find(
            task, "other-metric", f"{task.metric}, where {task.category} has {task.kind.metric}", "/reward_metric"
        )
    if any(_passes(task, answer) for answer in (NONE, REFUSAL)):
        yield _find(task, "constant-answer-passes", "an answer that needs no query passes", "/answer")
    elif _passes(task, f"{task.query}\n{task.required}"):
        yield _find(task, "echo-passes", "an answer that repeats what the agent is told passes", "/query")
    if task.interactive and not task.persona.strip():
        yield _find(task, "missing-field", "it has no persona, and its question comes from a user")


def _find(task: CrmTask, rule: str, message: str, place: str = "") -> LintFinding:
    return LintFinding(rule, "", task.task_id, message, place)


def _malformed(task: CrmTask) -> str:
    """Say what is wrong with the form of a gold, without showing it."""
    kind = task.kind.answer
    if task.metric != "exact_match" or task.answers == (NONE,):
        return "" if task.answers or task.metric == "privacy_rejection" else "there is none"
    for value in task.answers:
        if len(split_gold(value, kind)) > 1:
            return "several factors are one text"
        if kind in ("id", "ids"):
            if not is_record_id(value):
                return "it is no record id"
            if len(value) == 18 and value[15:] != checksum(value[:15]):
                return "it is a record id with a wrong checksum"
            if task.kind.key_prefix and not value.startswith(task.kind.key_prefix):
                return f"it is the id of another object than {task.category} asks for ({task.kind.key_prefix}...)"
        valid = {"month": MONTHS, "bant": BANT_FACTORS, "stage": STAGES}.get(kind)
        if valid is not None and value not in valid:
            return f"it is no {'BANT factor' if kind == 'bant' else kind}"
        if kind == "state" and not (len(value) == 2 and value.isupper()):
            return "it is not a state's two letters"
    return ""


def _passes(task: CrmTask, answer: str) -> bool:
    """Tell whether an answer is a success, scored as upstream scores."""
    if task.metric == "fuzzy_match":
        # Only the F1 decides; BLEU and ROUGE, which are shown beside it, take most of the time.
        return f1_score(answer, task.answers[0] if task.answers else "") >= THRESHOLD
    if task.metric == "privacy_rejection":
        # By definition, as no rule judges refusals.
        return answer == REFUSAL
    try:
        return score(task, answer).success
    except EvaluatorError:
        return False


# --- tasks beside each other ------------------------------------------------------------------------------------------


def _together(tasks: Iterable[CrmTask]) -> Iterator[LintFinding]:
    same: dict[tuple[str, str, str], list[CrmTask]] = defaultdict(list)
    for task in tasks:
        same[task.category, " ".join(task.query.split()), " ".join(task.required.split())].append(task)
    for group in same.values():
        golds = {tuple(sorted(task.answers)) for task in group}
        for task in group[1:] if len(golds) == 1 else group:
            others = ", ".join(other.task_id for other in group if other is not task)
            if len(golds) > 1:
                yield _find(task, "contradicting-tasks", f"asks what {others} asks, with another gold", "/query")
            else:
                yield _find(task, "repeated-task", f"asks what {group[0].task_id} asks", "/query")


def _unlike_others(tasks: Sequence[CrmTask]) -> Iterator[LintFinding]:
    """Find tasks without required knowledge in categories whose other tasks have some."""
    told = {task.category for task in tasks if task.required.strip()}
    for task in tasks:
        if task.category in told and not task.required.strip():
            what = f"it has no required knowledge, as others of {task.category} have"
            yield _find(task, "missing-field", what, "/metadata/required")


_FEWEST = 5
"""Of fewer tasks two with the same answer are half a category."""


def _common(tasks: Sequence[CrmTask]) -> Iterator[LintFinding]:
    by_category: dict[str, list[CrmTask]] = defaultdict(list)
    for task in tasks:
        if task.answers:
            by_category[task.category].append(task)
    for category, all_ in by_category.items():
        counts = Counter(task.answers for task in all_)
        for task in all_ if len(all_) >= _FEWEST else ():
            if counts[task.answers] * 2 >= len(all_):
                what = f"{counts[task.answers]} of {len(all_)} tasks of {category} have its gold"
                yield _find(task, "common-gold", what, "/answer")


def _never_none(tasks: Iterable[CrmTask]) -> Iterator[LintFinding]:
    by_category: dict[str, list[CrmTask]] = defaultdict(list)
    for task in tasks:
        if task.answers:
            by_category[task.category].append(task)
    for category, all_ in by_category.items():
        if len(all_) >= _FEWEST and not any(task.answers == (NONE,) for task in all_):
            yield _find(all_[0], "never-none", f"no task of {category} has the answer None", "/answer")


def _impossible(tasks: Iterable[CrmTask], source: Source) -> Iterator[LintFinding]:
    known = {field.name for sobject in source.schema.objects for field in sobject.all_fields}
    known |= {field.relationship for sobject in source.schema.objects for field in sobject.fields if field.relationship}
    known |= {sobject.name for sobject in source.schema.objects}
    for task in tasks:
        named = set(_FIELD.findall(f"{task.query}\n{task.required}"))
        if missing := sorted(named - known):
            yield _find(task, "impossible-field", f"no object of the org has {', '.join(missing)}", "/query")


_FIELD = re.compile(r"\b[A-Z]\w*?__[cr]\b|\b[A-Z][a-z]+(?:[A-Z][a-z]+)*(?:Id|Date|Phone|Email|Name|Price|Status)\b")
"""What is written as names of fields are, and as no other word is."""


def _not_derived(tasks: Iterable[CrmTask], source: MiniSource) -> Iterator[LintFinding]:
    with closing(opening.open_org(source)) as org:
        for task in tasks:
            if task.answers and not finds_gold(task, org.run):
                yield _find(task, "gold-not-derived", "the reference solver comes to another answer", "/answer")


def _in_no_row(tasks: Iterable[CrmTask], records: frozenset[str]) -> Iterator[LintFinding]:
    for task in tasks:
        if task.kind.answer not in ("id", "ids") or task.metric != "exact_match":
            continue
        ids = [value for value in task.answers if is_record_id(value)]
        missing = sum(not records.intersection(spellings(value)) for value in ids)
        if missing:
            what = "its record is" if len(ids) == 1 else f"{missing} of its {len(ids)} records are"
            yield _find(task, "gold-not-in-org", f"{what} in no table of the org", "/answer")


def _record_ids(source: Source) -> frozenset[str]:
    """Return the ids of every record of an org.

    :raises ConfigurationError: if it has no rows here.
    """
    if isinstance(source, MiniSource):
        return frozenset(str(row["Id"]) for rows in source.built.rows.values() for row in rows)
    path = source.rows_file()
    found: set[str] = set()
    try:
        with closing(sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)) as connection:
            for (table,) in list(connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")):
                columns = {name for (name,) in connection.execute("SELECT name FROM pragma_table_info(?)", (table,))}
                if "Id" in columns:
                    found.update(str(i) for (i,) in connection.execute(f"SELECT Id FROM {quote(table)}"))
    except sqlite3.Error as error:
        raise ConfigurationError(f"{path} cannot be read as an SQLite database: {error}") from error
    return frozenset(found)


def _other_edition(tasks: Iterable[CrmTask], domain: str, request: LintRequest) -> Iterator[LintFinding]:
    others = {task.task_id: task for task in _read(_settings(request.against, request), domain)[0]}
    for task in tasks:
        other = others.pop(task.task_id, None)
        if other is None:
            yield _find(task, "editions-differ", "the other edition has no such task")
            continue
        parts = {
            "the question": (task.query, other.query),
            "the required knowledge": (task.required, other.required),
            "the gold": (task.answers, other.answers),
            "the metric": (task.metric, other.metric),
            "the category": (task.category, other.category),
            "the persona": (task.persona, other.persona),
        }
        kinds = [name for name, (mine, theirs) in parts.items() if mine != theirs]
        if kinds:
            yield _find(task, "editions-differ", f"the editions differ in {', '.join(kinds)}")
    for task in others.values():
        yield _find(task, "editions-differ", "only the other edition has it")


# --- what is known of it ----------------------------------------------------------------------------------------------


def recognises(directory: Path) -> bool:
    """Tell whether a directory has a task file of CRMArena's."""
    return any(files.find_tasks(directory, domain) for domain in PUBLISHED)


def glance(request: LintRequest, domain: str, task_id: str) -> Iterator[LintFinding]:
    """Look at one task, without rows."""
    task = _by_id(json.dumps(request.settings.benchmark_options, sort_keys=True), domain).get(task_id)
    if task is not None:
        yield from (dataclasses.replace(f, domain=domain) for f in _alone(task))


@lru_cache(maxsize=8)
def _by_id(options: str, domain: str) -> dict[str, CrmTask]:
    settings = Settings(benchmark_options=json.loads(options))
    return {task.task_id: task for task in open_source(domain, settings).tasks()}


def digest(request: LintRequest, domain: str) -> str:
    """Return what the findings depend on: the files by their content, or how the mini org is made; and this package."""
    source = open_source(domain, _settings(request.directory, request))
    told = json.dumps(dataclasses.asdict(source.provenance), sort_keys=True)
    return f"{hashlib.sha256(told.encode()).hexdigest()} {code_digest(__file__)}"


LINTER = Linter(
    rules=RULES,
    domains=domains,
    lint=lint,
    recognises=recognises,
    glance=glance,
    digest=digest,
)
