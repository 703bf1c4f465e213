"""Options: command line over environment over ini over default, resolved once into :class:`Settings`.

All values arrive as text and are read here, so that every wrong one can be reported, together and in one place,
and so that they can be sent to xdist's workers.
"""

from __future__ import annotations

import dataclasses
import json
import os
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from pytest_a2a_bench import settings as s
from pytest_a2a_bench.configuration.rates import (
    read_dollars,
    read_drop,
    read_errors,
    read_latencies,
    read_pass_k,
    read_rates,
)
from pytest_a2a_bench.settings import Settings

if TYPE_CHECKING:
    import pytest

TAGGED_AGENTS = ("oracle", "readonly")
"""Built-in agents that cannot work without the trial's key."""

FILES = (
    "results",
    "waivers",
    "scenarios",
    "card_jwks",
    "durations",
    "record",
    "replay",
    "baseline",
    "quarantine",
    "html",
    "markdown",
)
"""Options that are paths: relative to the root directory where the ini file has them."""

_SECRET_NAME = re.compile(
    r"(?:^|_)(?:(?:api|access|secret|private|subscription|auth)_?key|apikey|key|token|secret|password|passwd|credentials?"
    r"|authorization|cookie)$",
    re.IGNORECASE,
)

_HUB = re.compile(r"(?P<hub>hub(?:@[^:@\s]+)?)(?::(?P<rows>.+))?", re.DOTALL)

_REMOTE_TX = re.compile(r"(?:^|\*|//)(?:ssh|socket|vagrant_ssh)=")


@dataclass(frozen=True, slots=True)
class Option:
    """One option in its three spellings: ``--a2a-NAME``, ``A2A_NAME`` and ini ``a2a_NAME``.

    :param name: the name of the field in :class:`Settings`.
    :param read: turns text into the value, or raises ValueError with what would be valid.
    :param flag: True for a switch that takes no value (and has a ``--a2a-no-`` form).
    """

    name: str
    metavar: str
    help: str
    read: Callable[[str], Any]
    flag: bool = False
    option: str = ""

    @property
    def cli(self) -> str:
        """The command line spelling."""
        return "--a2a-" + self.cli_stem

    @property
    def cli_stem(self) -> str:
        """What follows ``--a2a-``."""
        return (self.option or self.name).replace("_", "-")

    @property
    def dest(self) -> str:
        """Where argparse keeps it."""
        return f"a2a_{self.option or self.name}"

    @property
    def env(self) -> str:
        """The environment variable."""
        return self.dest.upper()

    @property
    def ini(self) -> str:
        """The ini key."""
        return self.dest


@dataclass(frozen=True, slots=True)
class Resolution:
    """What the options came to.

    :param problems: one line for each wrong value; where there are any, the settings must not be used.
    :param asked: whether the command line or the ini file (not only the environment) mentions us.
    """

    settings: Settings
    problems: tuple[str, ...] = ()
    asked: bool = False


def add_options(parser: pytest.Parser) -> None:
    """Declare every option and ini key."""
    group = parser.getgroup("a2a", "A2A agent benchmarks")
    for option in OPTIONS:
        text = f"{option.help} (default: {_default_text(option)}; env {option.env}; ini {option.ini})"
        if option.flag:
            group.addoption(option.cli, dest=option.dest, action="store_const", const="on", default=None, help=text)
            group.addoption(
                f"--a2a-no-{option.cli_stem}",
                dest=option.dest,
                action="store_const",
                const="off",
                help=f"The opposite of {option.cli}",
            )
        elif option.name == "suites":
            group.addoption(option.cli, dest=option.dest, action="append", metavar=option.metavar, help=text)
        else:
            group.addoption(option.cli, dest=option.dest, default=None, metavar=option.metavar, help=text)
        parser.addini(option.ini, f"{option.help}: what {option.cli} says where it is not given", default=None)


def resolve(config: pytest.Config, environ: Mapping[str, str]) -> Resolution:
    """Read all options of a run.

    :param environ: the environment, ``os.environ`` outside tests.
    """
    values: dict[str, Any] = {}
    problems: list[str] = []
    asked = False
    for option in OPTIONS:
        source, text, where = _find(option, config, environ, problems)
        if source == "none":
            continue
        asked = asked or source in ("cli", "ini") or option.name == "suites"
        try:
            values[option.name] = option.read(text)
        except ValueError as error:
            problems.append(f"{where}: {error}")
            continue
        if option.name == "endpoint":
            values["endpoint_source"] = source
        if option.name == "crm_data":
            base = config.rootpath if source == "ini" else config.invocation_params.dir.absolute()
            values["crm_data"] = _absolute(text, base)
        if option.name not in FILES or "://" in text:
            continue
        if source == "ini":
            values[option.name] = str(config.rootpath / text)
        elif option.name != "results":
            values[option.name] = str((config.invocation_params.dir / text).absolute())
    if "replay" in values and "endpoint" not in values:
        replayed = _find(next(o for o in OPTIONS if o.name == "replay"), config, environ, [])[0]
        values |= _recorded_endpoint(values["replay"], replayed, problems)
    elif "replay" in values:
        problems += _without_cassettes(values["replay"])
    settings = _with_implied(Settings(**values))
    problems += _contradictions(settings, config)
    return Resolution(settings, tuple(problems), asked)


def results_directory(settings: Settings, config: pytest.Config) -> Path:
    """Return where result files go: relative to the directory that pytest was started in, unless ini says so."""
    return (config.invocation_params.dir / settings.results).absolute()


def without_query(text: str, endpoint: str | None) -> str:
    """Return text without an endpoint's query, which may hold a key; a built-in agent's has only its options."""
    where, _, query = (endpoint or "").partition("?")
    if not query or where.startswith(s.BUILTIN_PREFIX):
        return text
    shown = text.replace(f"?{query}", "?...")
    return shown.replace(query, "...") if "=" in query else shown


def usage_text(problems: tuple[str, ...]) -> str:
    """Put several problems into one usage error's text."""
    return "; ".join(problems)


def _find(
    option: Option, config: pytest.Config, environ: Mapping[str, str], problems: list[str]
) -> tuple[str, str, str]:
    given = config.getoption(option.dest, None)
    if given is not None:
        return "cli", ",".join(given) if isinstance(given, list) else str(given), option.cli
    if environ.get(option.env):
        return "env", environ[option.env], f"environment variable {option.env}"
    try:
        ini = config.getini(option.ini)
    except (TypeError, ValueError) as error:  # a native TOML value of another type
        problems.append(f"ini {option.ini}: {error}; write it as a string")
        ini = None
    if ini:
        return "ini", str(ini), f"ini {option.ini}"
    return "none", "", ""


def _recorded_endpoint(directory: str, source: str, problems: list[str]) -> dict[str, Any]:
    """Take the agent from the cassettes, where none is named."""
    from pytest_a2a_bench.cassettes import library
    from pytest_a2a_bench.errors import A2ABenchError

    try:
        return {"endpoint": library.read_endpoint(Path(directory)), "endpoint_source": source}
    except A2ABenchError as error:
        problems.append(f"--a2a-replay: {error}")
        return {}


def _without_cassettes(directory: str) -> Iterator[str]:
    from pytest_a2a_bench.cassettes import library
    from pytest_a2a_bench.errors import A2ABenchError

    try:
        library.read_endpoint(Path(directory))
    except A2ABenchError as error:
        yield f"--a2a-replay: {error}"


def _with_implied(settings: Settings) -> Settings:
    if settings.builtin and settings.builtin.partition("?")[0] in TAGGED_AGENTS:
        return dataclasses.replace(settings, tag_trials=True)
    return settings


def _contradictions(settings: Settings, config: pytest.Config) -> list[str]:
    problems = []
    if settings.user == "llm" and not settings.user_llm:
        problems.append("--a2a-user=llm needs a model: add --a2a-user-llm MODEL (any LiteLLM name)")
    if settings.record and settings.replay:
        problems.append("--a2a-record and --a2a-replay exclude each other: what is replayed is recorded already")
    problems += _data_problems(settings, listing=bool(config.getoption("collectonly", False)))
    problems += _output_problems(settings)
    if settings.crm_org == "salesforce":
        if settings.crm_data is None:
            problems.append(
                "--a2a-crm-org=salesforce has rows and no tasks: add --a2a-crm-data DIR (or hub) with those of your org"
            )
        if settings.crm_drift or settings.crm_rot:
            problems.append(
                "--a2a-crm-drift and --a2a-crm-rot change the org's rows and columns, which is only done to a local "
                "one; leave out --a2a-crm-org=salesforce"
            )
    if settings.max_drop is not None and not settings.baseline:
        problems.append("--a2a-max-drop is measured from a baseline: add --a2a-baseline FILE (a2a-bench promote)")
    if settings.otel == "on":
        from pytest_a2a_bench.plugin.trials import telemetry

        if not telemetry.is_installed():
            problems.append("--a2a-otel=on needs OpenTelemetry; run: pip install 'pytest-a2a-bench[otel]'")
    remote = [str(spec) for spec in config.getoption("tx", None) or () if _REMOTE_TX.search(str(spec))]
    if settings.builtin and remote:
        problems.append(
            f"--a2a-endpoint=builtin:{settings.builtin} listens on this machine only, which --tx {remote[0]} "
            "cannot reach; start it with 'a2a-bench agent' on an address that every worker reaches and pass its URL"
        )
    return problems


def _output_problems(settings: Settings) -> Iterator[str]:
    """Say which files cannot be written, before anything is paid for."""
    for option, value in (("--a2a-html", settings.html), ("--a2a-markdown", settings.markdown)):
        if not value:
            continue
        path = Path(value)
        try:
            above = next((p for p in path.absolute().parents if p.exists()), path)
            if path.is_dir():
                yield f"{option}={path}: it is a directory; give the name of a file"
            elif not above.is_dir():
                yield f"{option}={path}: {above} is no directory"
        except OSError as error:
            yield f"{option}={path}: {error.strerror}"


def _data_problems(settings: Settings, *, listing: bool) -> list[str]:
    hub = _HUB.fullmatch(settings.crm_data or "")
    directory = hub["rows"] if hub is not None else settings.crm_data
    if hub is not None and directory is None and settings.crm_org == "local" and not listing:
        return [
            f"--a2a-crm-data={settings.crm_data}: the hub has tasks but no rows of an org: pass {hub['hub']}:DIR with "
            "local_data/ of upstream's repository in DIR, or --a2a-crm-org salesforce"
        ]
    if directory is None or Path(directory).is_dir():
        return []
    return [f"--a2a-crm-data: {directory} is not a directory; it must be one with CRMArena's files"]


def _default_text(option: Option) -> str:
    default = next(f.default for f in dataclasses.fields(Settings) if f.name == option.name)
    if default is None or default == () or default is dataclasses.MISSING:
        return "none"
    if isinstance(default, bool):
        return "on" if default else "off"
    return f"{default:g}" if isinstance(default, float) else str(default)


# --- how values are read ----------------------------------------------------------------------------------------------


def _one_of(*valid: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        if text not in valid:
            raise ValueError(f"{text!r} is not one of {', '.join(valid)}")
        return text

    return read


def _whole(minimum: int) -> Callable[[str], int]:
    def read(text: str) -> int:
        if not re.fullmatch(r"\s*[+-]?\d{1,18}\s*", text, re.ASCII) or int(text) < minimum:
            raise ValueError(f"{text!r} is not a whole number of at least {minimum}")
        return int(text)

    return read


def _seconds(*, zero: bool = False) -> Callable[[str], float]:
    def read(text: str) -> float:
        wanted = "a number of seconds, 0 or more" if zero else "a positive number of seconds"
        try:
            value = float(text)
        except ValueError:
            raise ValueError(f"{text!r} is not {wanted}") from None
        if not (0 <= value < float("inf")) or (value == 0 and not zero):
            raise ValueError(f"{text!r} is not {wanted}")
        return value

    return read


def _share(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value <= 1:
        raise ValueError(f"{text!r} is not a number above 0 and up to 1")
    return value


def _crm_data(text: str) -> str:
    """Read a source; ``hub@`` or ``hub:`` with nothing behind it is a slip of the pen."""
    if re.match(r"hub[@:]", text) and not _HUB.fullmatch(text):
        raise ValueError(f"{text!r} is no source on the hub; expected hub, hub@REVISION, hub:DIR or hub@REVISION:DIR")
    return _text(text)


def _absolute(source: str, base: Path) -> str:
    """Return a source of CRMArena's data with its directory, if it names one, made absolute."""
    hub = _HUB.fullmatch(source)
    if hub is None:
        return str(base / Path(source).expanduser())
    return source if hub["rows"] is None else f"{hub['hub']}:{base / Path(hub['rows']).expanduser()}"


def _crm_drift(text: str) -> str | None:
    level = _one_of("none", *s.CRM_DRIFTS)(text)
    return None if level == "none" else level


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word in ("1", "true", "yes", "on"):
        return True
    if word in ("0", "false", "no", "off"):
        return False
    raise ValueError(f"{text!r} is not one of on, off, true, false, yes, no, 1, 0")


def _json_object(text: str) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f'not JSON ({error}); expected an object such as {{"temperature": 0}}') from None
    if not isinstance(value, dict):
        raise ValueError(f'{text!r} is not a JSON object; expected one such as {{"temperature": 0}}')
    return value


def _model_arguments(text: str) -> dict[str, Any]:
    value = _json_object(text)
    secrets = sorted(set(_secret_names(value)))
    if secrets:
        # They would be stored with every result. The values are not repeated here either.
        raise ValueError(
            f"must not hold {', '.join(secrets)}; set the environment variable that LiteLLM reads for your provider "
            "(OPENAI_API_KEY, ANTHROPIC_API_KEY, ...) instead"
        )
    return value


def _secret_names(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for name, inner in value.items():
            if _SECRET_NAME.search(re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name)):
                yield name
            else:
                yield from _secret_names(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from _secret_names(inner)


def _variable_name(text: str) -> str:
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", text):
        # The value is not repeated: what is wrong here is most often that it is the token itself.
        raise ValueError("not the name of an environment variable; put the token into one and give its name")
    return text


def _text(text: str) -> str:
    if not text.strip():
        raise ValueError("the value is empty")
    return text


def _endpoint(text: str) -> str:
    if text.startswith(s.BUILTIN_PREFIX):
        return _builtin(text)
    try:
        parts = urlsplit(text)
        valid = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port is None or parts.port > 0)
    except ValueError:
        raise ValueError(f"not a URL; {_ENDPOINTS}") from None
    if "@" in parts.netloc:
        raise ValueError("the URL contains credentials; put the token into an environment variable (--a2a-auth-env)")
    if not valid:
        raise ValueError(f"{without_query(text, text)!r} is not an endpoint; {_ENDPOINTS}")
    return text


def _builtin(text: str) -> str:
    name = text.removeprefix(s.BUILTIN_PREFIX).partition("?")[0]
    if name not in s.BUILTIN_AGENTS:
        raise ValueError(f"no built-in agent is called {name!r}; {_ENDPOINTS}")
    return text


def _suites(text: str) -> tuple[str, ...]:
    from pytest_a2a_bench.benchmarks import registry

    names = tuple(dict.fromkeys(name for name in re.split(r"[,\s]+", text) if name))
    valid = registry.selectable_names()
    if not names:
        raise ValueError(f"no suite is named; valid are: {', '.join(valid)}")
    unknown = [name for name in names if name not in valid]
    if unknown:
        raise ValueError(f"unknown suite {', '.join(map(repr, unknown))}; valid are: {', '.join(valid)}")
    return names


def _shard(text: str) -> str:
    from pytest_a2a_bench.results import sharding

    return str(sharding.read(text, os.environ))


_ENDPOINTS = "expected an http(s):// URL or one of " + ", ".join(s.BUILTIN_PREFIX + n for n in s.BUILTIN_AGENTS)

OPTIONS: tuple[Option, ...] = (
    Option("endpoint", "URL|builtin:NAME", "Agent under test: its base URL, or a built-in agent", _endpoint),
    Option("suites", "NAMES", "Suites or domains to run, separated by commas", _suites, option="suite"),
    Option("auth_env", "NAME", "Environment variable that holds the agent's token", _variable_name),
    Option("timeout", "SECONDS", "Limit for one whole turn of the agent", _seconds()),
    Option("verify_ssl", "", "Verify the agent's TLS certificate", _switch, flag=True),
    Option("protocol", "|".join(s.PROTOCOLS), "A2A protocol version", _one_of(*s.PROTOCOLS)),
    Option("transport", "|".join(s.TRANSPORTS), "A2A transport", _one_of(*s.TRANSPORTS)),
    Option("streaming", "|".join(s.STREAMING), "Streaming requests", _one_of(*s.STREAMING)),
    Option("dialect", "NAME", f"How tools are written in messages: {', '.join(s.DIALECTS)}", _one_of(*s.DIALECTS)),
    Option("history", "|".join(s.HISTORIES), "Send only what is new, or everything", _one_of(*s.HISTORIES)),
    Option("trials", "N", "Attempts at each task", _whole(1)),
    Option("seed", "N", "Seed that the seeds of the trials are derived from", _whole(0)),
    Option("split", "NAME", f"Tasks to run: {', '.join(s.SPLITS)}", _one_of(*s.SPLITS)),
    Option("max_steps", "N", "Steps after which a conversation is ended", _whole(1)),
    Option("max_errors", "N", "Tool errors after which a conversation is ended", _whole(1)),
    Option("user", "|".join(s.USERS), "Who plays the user", _one_of(*s.USERS)),
    Option("user_llm", "MODEL", "Model of the simulated user, any LiteLLM name", _text),
    Option("user_llm_args", "JSON", "Arguments for that model, a JSON object", _model_arguments),
    Option("judge_llm", "MODEL", "Model that judges what tau2 leaves to a judge", _text),
    Option("results", "DIR", "Directory for result files", _text),
    Option("html", "FILE", "Write one page with everything: verdict, charts, trials and transcripts", _text),
    Option("tag_trials", "", "Name the task to the agent in message metadata", _switch, flag=True),
    Option("concurrency", "N", "Conversations in flight in each process", _whole(1)),
    Option("trial_timeout", "SECONDS", "Limit for one whole trial", _seconds()),
    Option("wait", "SECONDS", "Wait until a freshly started agent answers", _seconds(zero=True)),
    Option(
        "min_pass",
        "RATE|NAME=RATE,...",
        "Lowest success rate of all trials, or of a suite, domain or category",
        read_rates,
    ),
    Option("min_pass_k", "K=RATE,...", "Lowest pass^k", read_pass_k),
    Option("baseline", "FILE|DIR", "Earlier run to compare with: a promoted file or a results directory", _text),
    Option("max_drop", "RATE", "How much lower than the baseline the success rate may be (0.05)", read_drop),
    Option("inconclusive", "pass|fail", "What a gate that cannot tell does to the run", _one_of(*s.INCONCLUSIVE)),
    Option("max_cost", "DOLLARS", "Most that all trials together may cost", read_dollars),
    Option("max_latency", "pN=SECONDS,...", "Highest percentiles of the agent's turns, such as p95=10", read_latencies),
    Option("max_infra_errors", "N|RATE", "Most trials that the infrastructure may fail, or their share", read_errors),
    Option("missed", "", "Run only the trials that did not succeed in the last run", _switch, flag=True),
    Option("quarantine", "FILE", "TOML file of flaky tasks, each with its reason and an end", _text),
    Option(
        "strict", "", "Fail for recommendations of the protocol (SHOULD) too, instead of warning", _switch, flag=True
    ),
    Option("waivers", "FILE", "TOML file of known protocol defects, each with its reason and an end", _text),
    Option("scenarios", "FILE", "TOML file of prompts that make the agent behave in special ways", _text),
    Option("card_jwks", "FILE|URL", "Keys to verify the signatures of the agent card with", _text),
    Option("webhook_bind", "HOST:PORT", "Where to receive push notifications, for an agent elsewhere", _text),
    Option("webhook_url", "URL", "How the agent reaches that", _text),
    Option("resume", "", "Take results of earlier runs from the results directory", _switch, flag=True),
    Option("shard", "I/N|auto", "Run one of N parts of the trials; auto asks the CI system's variables", _shard),
    Option("record", "DIR", "Record each conversation with the agent as a cassette", _text),
    Option("replay", "DIR", "Replay recorded conversations; the agent is not needed", _text),
    Option("markdown", "FILE", "Write the run's summary as Markdown, for a merge request", _text),
    Option("github", "|".join(s.SWITCHES), "Job summary and annotations on GitHub Actions", _one_of(*s.SWITCHES)),
    Option("otel", "|".join(s.SWITCHES), "Spans of trials, turns and requests for OpenTelemetry", _one_of(*s.SWITCHES)),
    Option("durations", "PATH", "Results directory, or JSON of keys and seconds, to balance --a2a-shard by", _text),
    Option(
        "crm_data",
        "DIR|hub[@REV][:DIR]",
        "CRMArena's tasks and rows: a directory, or tasks of the Hugging Face hub (at a revision) with rows in DIR",
        _crm_data,
    ),
    Option("crm_org", "|".join(s.CRM_ORGS), "What answers CRMArena's queries", _one_of(*s.CRM_ORGS)),
    Option(
        "crm_scoring",
        "|".join(s.CRM_SCORINGS),
        "CRMArena's scoring: upstream's bug for bug, or without its bugs",
        _one_of(*s.CRM_SCORINGS),
    ),
    Option("crm_aided", "", "Show the general domain details in CRMArena's task message too", _switch, flag=True),
    Option("crm_drift", "none|" + "|".join(s.CRM_DRIFTS), "Rename columns of CRMArena's org", _crm_drift),
    Option("crm_rot", "N", "Add distractor rows to CRMArena's org", _whole(0)),
    Option("crm_tasks", "N", "Tasks of each category of the mini org", _whole(1)),
    Option("crm_seed", "N", "Seed that the mini org is made from", _whole(0)),
    Option("crm_max_turns", "N", "Turns of the agent after which a CRMArena conversation is ended", _whole(1)),
    Option("crm_max_user_turns", "N", "Turns of the user in an interactive CRMArena conversation", _whole(1)),
    Option("crm_threshold", "F1", "F1 from which a free-text CRMArena answer is a success", _share),
)
"""Every option, in the order of ``pytest --help``."""
