"""How the agent of banking_knowledge finds documents: upstream's retrieval configurations, and their requirements.

Upstream's own default asks a model for embeddings and runs a shell in a sandbox. Where nobody names a configuration and
the default cannot be had, the best one is taken that asks nobody, and every report says which. What each configuration
needs is read from upstream's description of it; only the order of preference is ours.
"""

from __future__ import annotations

import importlib
import importlib.util
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.benchmarks.tau2.suite import RETRIEVAL
from pytest_a2a_bench.benchmarks.tau2.upstream import Tau2, load
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, PrerequisiteMissingError
from pytest_a2a_bench.model import TrialResult
from pytest_a2a_bench.text import did_you_mean

DOMAIN = "banking_knowledge"

OFFLINE = ("bm25_grep", "bm25", "grep_only", "no_knowledge")
"""Configurations that ask no model, the most capable first. Not among them: those that send the whole knowledge base
or the documents of the gold, which are another task, and a shell for the agent behind the endpoint."""

WITHOUT_DOCUMENTS = "no_knowledge"
"""The configuration without requirements."""

BEST_OFFLINE = "offline"
"""In the place of a name: the best of :data:`OFFLINE` that can be had, whatever upstream's default is."""

_KEYS = {"openai": "OPENAI_API_KEY", "openrouter": "OPENROUTER_API_KEY"}
# Upstream's reranker is a model of OpenAI's, whosever the embeddings are.
_RERANKER_KEY = "OPENAI_API_KEY"
_SEARCH_TOOLS = {"kb_search": "KB_search", "kb_search_bm25": "KB_search_bm25", "kb_search_dense": "KB_search_dense"}
"""Members of upstream's description of a configuration, and the agent's tools that they describe."""
# Upstream imports every kind of retriever at once, whichever is used.
_PACKAGES = {"rank_bm25": "rank-bm25", "openai": "openai"}
_PROGRAMS = ("srt", "rg", "bwrap", "socat") if sys.platform.startswith("linux") else ("srt", "rg")


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The configuration that a run uses.

    :param name: upstream's name of it.
    :param missing: its requirements that are not here; trials are then skipped.
    :param passed_over: why it is not upstream's default, where no setting names one.
    :param asks_models: whether it asks models elsewhere, for embeddings or to judge documents.
    """

    name: str
    missing: tuple[str, ...] = ()
    passed_over: str = ""
    asks_models: bool = False

    def provenance(self) -> dict[str, Any]:
        """Return its record in results (``suite.name_variant`` keeps results of different configurations apart)."""
        return {"retrieval": self.name} | ({"retrieval_why": self.passed_over} if self.passed_over else {})

    def require(self, task: str) -> None:
        """Refuse to hold a trial for which something is missing; raises PrerequisiteMissingError naming all of it."""
        if self.missing:
            raise PrerequisiteMissingError(
                f"{task}: the retrieval configuration {self.name!r} needs {_and(self.missing)}; "
                f"provide that, or choose another one (--a2a-set retrieval={WITHOUT_DOCUMENTS} needs nothing)"
            )


def choose(tau2: Tau2, domain: str, settings: Settings, environ: Mapping[str, str]) -> Retrieval | None:
    """Return the configuration for a domain's trials, or None where the domain has no documents.

    :param environ: where keys are looked for.
    :raises ConfigurationError: if upstream has none of the name that was given.
    """
    if domain != DOMAIN or tau2.retrieval is None:
        return None
    known = tau2.retrieval.RETRIEVAL_VARIANTS
    usable = [name for name in OFFLINE if name in known and not any(_missing(known[name], environ))]
    given = settings.benchmark_options.get(RETRIEVAL)
    if given == BEST_OFFLINE:
        return Retrieval(str(_find(tau2, next(iter(usable), WITHOUT_DOCUMENTS)).name))
    if given is not None:
        variant = _find(tau2, given)
        return Retrieval(str(variant.name), tuple(_missing(variant, environ)), asks_models=bool(_keys(variant)))
    default = _find(tau2, tau2.retrieval.DEFAULT_RETRIEVAL_VARIANT)
    missing = tuple(_missing(default, environ))
    if not missing:
        return Retrieval(str(default.name), asks_models=bool(_keys(default)))
    if not usable:
        return Retrieval(str(default.name), missing)
    return Retrieval(usable[0], passed_over=f"upstream's default, {default.name}, needs {_and(missing)}")


def _find(tau2: Tau2, name: str) -> Any:
    module: Any = tau2.retrieval
    known = module.RETRIEVAL_VARIANTS
    canonical = getattr(module, "RETRIEVAL_VARIANT_ALIASES", {}).get(name, name)
    if canonical not in known:
        raise ConfigurationError(
            f"retrieval={name}: {tau2.distribution} has no such retrieval configuration; "
            f"it has: {', '.join(sorted(known))}{did_you_mean(name, known)}"
        )
    return known[canonical]


def _missing(variant: Any, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the missing requirements of one of upstream's configurations, in words."""
    if _searches(variant) or getattr(variant, "grep", None) is not None:
        yield from _group("package", [pip for module, pip in _PACKAGES.items() if not importlib.util.find_spec(module)])
    yield from (f"{key} in the environment" for key in _keys(variant) if not environ.get(key))
    if getattr(variant, "shell", None) is not None:
        yield from _group("program", [name for name in _PROGRAMS if shutil.which(name) is None])


def _searches(variant: Any) -> list[Any]:
    return [search for name in _SEARCH_TOOLS if (search := getattr(variant, name, None)) is not None]


def _keys(variant: Any) -> list[str]:
    """Return the environment variables with the keys of all models that a configuration asks."""
    searches = _searches(variant)
    keys = [_KEYS.get(search.embedder_type or "openrouter") for search in searches if search.type == "embedding"]
    keys += [_RERANKER_KEY for search in searches if search.reranker]
    return list(dict.fromkeys(filter(None, keys)))


def _group(what: str, names: Sequence[str]) -> Iterator[str]:
    if names:
        yield f"the {what}{'s' * (len(names) > 1)} {_and(names)}"


def _and(parts: Sequence[str]) -> str:
    *most, last = parts
    return f"{', '.join(most)} and {last}" if most else last


# --- what goes wrong in it --------------------------------------------------------------------------------------------


# --- what becomes of it in upstream's files ---------------------------------------------------------------------------


def of_results(domain: str, results: Iterable[TrialResult]) -> str:
    """Return the configuration of stored results of a domain; empty where they had no documents.

    :raises ConfigurationError: if they had several: upstream's files hold one.
    """
    names = sorted({str(r.provenance["retrieval"]) for r in results if r.provenance.get("retrieval")})
    if len(names) > 1:
        raise ConfigurationError(
            f"these results of {domain} are of {len(names)} retrieval configurations ({', '.join(names)}), and a tau2 "
            "file holds one; export the results directory of a run with one"
        )
    return names[0] if names else ""


def policy_of(tau2: Tau2, name: str) -> str:
    """Return the policy of a configuration as upstream writes it for a whole run."""
    module: Any = tau2.retrieval
    environment = importlib.import_module("tau2.domains.banking_knowledge.environment")
    return str(module.get_info_policy_override(name, environment.get_knowledge_base()))


# --- what is said about it --------------------------------------------------------------------------------------------


def find_problems(domains: Iterable[str], settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Yield the problems of the option, where a domain that has documents is to be run."""
    if DOMAIN not in domains or settings.benchmark_options.get(RETRIEVAL) is None:
        return
    try:
        choose(load(), DOMAIN, settings, environ)
    except ConfigurationError as error:
        yield str(error)


def announce(domains: Iterable[str], settings: Settings, environ: Mapping[str, str]) -> Iterator[str]:
    """Describe for the header which configuration a run of these domains uses."""
    if DOMAIN not in domains or DOMAIN not in index.available_domains():
        return
    try:
        chosen = choose(load(), DOMAIN, settings, environ)
    except ConfigurationError:  # a usage error, or a skip, will say so
        return
    if chosen is not None:
        yield f"{DOMAIN}: retrieval {chosen.name}" + _aside(chosen)


def _aside(chosen: Retrieval) -> str:
    if chosen.missing:
        return f", which needs {_and(chosen.missing)}: its trials are skipped"
    return _why(chosen.passed_over) if chosen.passed_over else ""


def _why(passed_over: str) -> str:
    return f" (the best that asks nobody: {passed_over})"


def describe_results(provenances: Iterable[Mapping[str, Any]]) -> Iterator[str]:
    """Report the configuration that was chosen where no setting names one.

    :param provenances: the ``provenance`` of results.
    """
    reasons = {(str(p["retrieval"]), str(p["retrieval_why"])) for p in provenances if p.get("retrieval_why")}
    for name, why in sorted(reasons):
        yield f"{DOMAIN}: retrieval {name}{_why(why)}; another one by --a2a-set retrieval=NAME"
