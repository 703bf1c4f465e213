"""Which retrieval configuration is taken, and whose trouble its failures are: without what tau2 itself does with it.

With upstream's own package the same is held in test_upstream.py.
"""

import dataclasses
import importlib.util
from types import SimpleNamespace
from typing import Any

import pytest
from made_trials import made_trial

from pytest_a2a_bench.benchmarks.tau2 import retrieval, upstream
from pytest_a2a_bench.benchmarks.tau2.benchmark import Tau2Benchmark, Watch
from pytest_a2a_bench.benchmarks.tau2.suite import name_variant
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError, LLMError, PrerequisiteMissingError

BM25 = SimpleNamespace(type="bm25", embedder_type=None, reranker=False)
DENSE = SimpleNamespace(type="embedding", embedder_type="openai", reranker=False)
RERANKED = SimpleNamespace(type="bm25", embedder_type=None, reranker=True)


def variant(name: str, **parts: Any) -> Any:
    return SimpleNamespace(name=name, **{"kb_search": None, "grep": None, "shell": None, **parts})


VARIANTS = [
    variant("no_knowledge"),
    variant("golden_retrieval"),
    variant("grep_only", grep=object()),
    variant("bm25", kb_search=BM25),
    variant("bm25_grep", kb_search=BM25, grep=object()),
    variant("bm25_reranker", kb_search=RERANKED),
    variant("dense", kb_search=DENSE),
    variant("alltools", kb_search_bm25=BM25, kb_search_dense=DENSE, shell=object()),
]


@pytest.fixture
def tau2(lacks: set[str]) -> upstream.Tau2:
    module = SimpleNamespace(
        RETRIEVAL_VARIANTS={v.name: v for v in VARIANTS},
        RETRIEVAL_VARIANT_ALIASES={"AllTools": "alltools"},
        DEFAULT_RETRIEVAL_VARIANT="alltools",
    )
    return dataclasses.replace(upstream.load(), distribution="tau2 1.0.1", retrieval=module)


@pytest.fixture(autouse=True)
def lacks(monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """A machine with upstream's packages and programs; what the set holds is not there."""
    absent: set[str] = set()
    real = importlib.util.find_spec

    def find_spec(name: str, *rest: Any) -> Any:
        return (None if name in absent else object()) if name in ("rank_bm25", "openai") else real(name, *rest)

    monkeypatch.setattr("importlib.util.find_spec", find_spec)
    monkeypatch.setattr("shutil.which", lambda name, *rest: None if name in absent else f"/bin/{name}")
    monkeypatch.setattr(retrieval, "_PROGRAMS", ("srt", "rg"))
    return absent


def chosen(tau2: upstream.Tau2, name: str | None = None, **environ: str) -> retrieval.Retrieval:
    settings = Settings(benchmark_options={"retrieval": name})
    found = retrieval.choose(tau2, retrieval.DOMAIN, settings, environ)
    assert found is not None
    return found


def test_the_default_is_upstreams_or_the_best_that_asks_nobody(tau2: upstream.Tau2, lacks: set[str]) -> None:
    assert chosen(tau2, OPENAI_API_KEY="k") == retrieval.Retrieval("alltools", asks_models=True)
    with pytest.raises(ConfigurationError, match=r"retrieval=bm52: tau2 1\.0\.1 has no such.*alltools, bm25, "):
        chosen(tau2, "bm52")
    assert retrieval.choose(tau2, "airline", Settings(benchmark_options={"retrieval": "bm25"}), {}) is None
    assert retrieval.choose(dataclasses.replace(tau2, retrieval=None), retrieval.DOMAIN, Settings(), {}) is None
    without_key = chosen(tau2)
    assert (without_key.name, without_key.missing) == ("bm25_grep", ())
    assert without_key.passed_over == "upstream's default, alltools, needs OPENAI_API_KEY in the environment"
    lacks |= {"srt", "rg"}
    assert chosen(tau2, OPENAI_API_KEY="k").passed_over.endswith("needs the programs srt and rg")
    lacks.add("rank_bm25")
    assert chosen(tau2).name == "no_knowledge"


def test_the_best_that_asks_nobody_can_be_asked_for(tau2: upstream.Tau2, lacks: set[str]) -> None:
    """Even where upstream's default, with a shell and a model, could be had."""
    assert chosen(tau2, "offline", OPENAI_API_KEY="k") == retrieval.Retrieval("bm25_grep")
    lacks.add("rank_bm25")
    assert chosen(tau2, "offline", OPENAI_API_KEY="k") == retrieval.Retrieval("no_knowledge")


@pytest.mark.parametrize(
    ("name", "absent", "missing"),
    [
        ("no_knowledge", {"rank_bm25", "openai", "srt"}, ()),
        ("grep_only", {"rank_bm25"}, ("the package rank-bm25",)),
        ("dense", set(), ("OPENAI_API_KEY in the environment",)),
        ("bm25_reranker", {"openai"}, ("the package openai", "OPENAI_API_KEY in the environment")),
        ("AllTools", {"rg"}, ("OPENAI_API_KEY in the environment", "the program rg")),
    ],
)
def test_missing_requirements_of_a_named_retrieval(
    name: str, absent: set[str], missing: tuple[str, ...], tau2: upstream.Tau2, lacks: set[str]
) -> None:
    lacks |= absent
    found = chosen(tau2, name)
    assert found.missing == missing
    assert found.passed_over == ""
    if missing:
        with pytest.raises(PrerequisiteMissingError, match=r"tau2/x: .*needs .*; provide that, or choose another"):
            found.require("tau2/x")
    else:
        found.require("tau2/x")


def test_retrieval_is_chosen_once_a_run(tau2: upstream.Tau2, lacks: set[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("pytest_a2a_bench.benchmarks.tau2.benchmark.load", lambda **_: tau2)
    monkeypatch.setenv("OPENAI_API_KEY", "k")
    benchmark, run = Tau2Benchmark(), Settings()
    before = benchmark.data_version(retrieval.DOMAIN, run)
    assert before.endswith(", retrieval alltools")
    lacks.add("rg")
    assert benchmark.data_version(retrieval.DOMAIN, run) == before
    assert benchmark.data_version(retrieval.DOMAIN, Settings()) != before


def test_it_is_said_and_kept_apart(tau2: upstream.Tau2, monkeypatch: pytest.MonkeyPatch) -> None:
    message = chosen(tau2).provenance()
    assert name_variant(message) == "retrieval bm25_grep"
    assert name_variant({**message, "variant": "data of x"}) == "data of x, retrieval bm25_grep"
    assert name_variant({"variant": None}) == ""
    [line] = retrieval.describe_results([message, message, {}])
    assert line.startswith("banking_knowledge: retrieval bm25_grep (the best that asks nobody: upstream's default, ")
    assert list(retrieval.describe_results([chosen(tau2, "bm25").provenance()])) == []
    monkeypatch.setattr(retrieval, "load", lambda: tau2)
    monkeypatch.setattr("pytest_a2a_bench.benchmarks.tau2.index.available_domains", lambda: (retrieval.DOMAIN,))
    lacking = Settings(benchmark_options={"retrieval": "dense"})
    assert list(retrieval.announce([retrieval.DOMAIN], lacking, {})) == [
        "banking_knowledge: retrieval dense, which needs OPENAI_API_KEY in the environment: its trials are skipped"
    ]
    wrong = Settings(benchmark_options={"retrieval": "bm52"})
    assert len(list(retrieval.find_problems([retrieval.DOMAIN], wrong, {}))) == 1
    assert list(retrieval.find_problems(["airline"], wrong, {})) == []
    assert list(retrieval.announce([retrieval.DOMAIN], wrong, {})) == []


def test_an_export_holds_one_configuration() -> None:
    def of(name: str) -> Any:
        return made_trial("tau2/banking_knowledge/t#0", provenance={"retrieval": name})

    assert retrieval.of_results("banking_knowledge", [of("bm25"), of("bm25")]) == "bm25"
    assert retrieval.of_results("airline", [made_trial("tau2/airline/1#0")]) == ""
    with pytest.raises(ConfigurationError, match=r"2 retrieval configurations \(bm25, dense\)"):
        retrieval.of_results("banking_knowledge", [of("dense"), of("bm25")])


class Searching:
    """A toolkit with something that searches."""

    def __init__(self, error: Exception | None) -> None:
        def retrieve(query: str) -> str:
            if error is not None:
                raise error
            return query

        self.db = None
        self.pipeline = SimpleNamespace(retrieve=retrieve)


def test_a_search_that_fails_is_the_models_trouble(tau2: upstream.Tau2) -> None:
    watch = Watch(chosen(tau2, "dense", OPENAI_API_KEY="k"))
    well, ill = Searching(None), Searching(RuntimeError("HTTP 500"))
    watch.listen(well)
    assert well.pipeline.retrieve("q") == "q"
    watch.check()
    watch.listen(ill)
    # tau2 makes an error of the tool from it, and the conversation would go on.
    with pytest.raises(RuntimeError):
        ill.pipeline.retrieve("q")
    with pytest.raises(
        LLMError, match=r"a model of the retrieval configuration 'dense' failed: RuntimeError: HTTP 500"
    ):
        watch.check()


def test_blame_of_build_errors(tau2: upstream.Tau2) -> None:
    class SandboxRuntimeError(RuntimeError):
        """As upstream's is called."""

    dense, bm25 = (Watch(chosen(tau2, name, OPENAI_API_KEY="k")) for name in ("dense", "bm25"))
    with pytest.raises(PrerequisiteMissingError, match="No module named 'x'"), bm25.building():
        raise ModuleNotFoundError("No module named 'x'")
    with pytest.raises(PrerequisiteMissingError, match=r"no srt$"), bm25.building():
        raise SandboxRuntimeError("no srt\nmore")
    with pytest.raises(LLMError), dense.building():
        raise ValueError("401")
    # A bug stays one.
    with pytest.raises(ValueError, match="bug"), bm25.building():
        raise ValueError("bug")
