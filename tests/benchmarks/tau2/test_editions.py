"""tau2's data from elsewhere than its code: named, kept apart, and everything of them used."""

import dataclasses
import itertools
import json
import shutil
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from finished_runs import write_run
from one_test import in_one_test
from tau2_checkouts import TITLE, change_tasks, make_checkout, retitled
from trials import RunTrials, run_against

from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.benchmarks.tau2 import index, upstream
from pytest_a2a_bench.benchmarks.tau2.files import export
from pytest_a2a_bench.benchmarks.tau2.index import data_directory, find_edition
from pytest_a2a_bench.benchmarks.tau2.suite import SUITE
from pytest_a2a_bench.cli.main import main
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError
from pytest_a2a_bench.model import TrialKey, TrialResult
from pytest_a2a_bench.results import manifest
from pytest_a2a_bench.results.baseline import Baseline
from pytest_a2a_bench.results.compare import compare
from pytest_a2a_bench.results.merge import MergeError, merge
from pytest_a2a_bench.results.stats import summarise

CREATE = TrialKey("tau2", "mock", "create_task_1")


def oracle_of(checkout: Path) -> str:
    return f"oracle?benchmark_options={quote(json.dumps({'tau2_data': str(checkout)}))}"


def chosen(checkout: Path, **more: Any) -> Settings:
    return Settings(tag_trials=True, benchmark_options={"tau2_data": str(checkout)}, **more)


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    return make_checkout(tmp_path / "checkout", retitled)


@pytest.fixture(scope="module")
def both(builtin: Callable[[str], str], tmp_path_factory: pytest.TempPathFactory) -> tuple[TrialResult, TrialResult]:
    """The oracle that knows the installed golds, on the installed data and on a checkout's."""
    folder = tmp_path_factory.mktemp("both")
    edition = chosen(make_checkout(folder / "checkout", retitled))
    url = builtin("oracle")
    [plain], [other] = (run_against(url, each, [CREATE], folder) for each in (Settings(tag_trials=True), edition))
    return plain, other


# --- what an edition is and is called ---------------------------------------------------------------------------------


def test_the_same_files_are_the_same_edition_wherever_they_are(tmp_path: Path) -> None:
    installed = find_edition(Settings())
    copy = find_edition(chosen(make_checkout(tmp_path / "a")))
    assert copy.is_installed("mock")
    assert (copy.name("mock"), copy.variant("mock")) == (index.find_installation().distribution, "")
    assert copy.benchmark("mock") == installed.benchmark("mock")

    first, second = (find_edition(chosen(make_checkout(tmp_path / name, retitled))) for name in "bc")
    assert first.name("mock") == second.name("mock") == first.digest("mock")[:12]
    assert first.variant("mock") == f"data of {first.name('mock')}"
    assert first.benchmark("mock") == f"{installed.benchmark('mock')} with data of {first.name('mock')}"


def test_every_file_that_tau2_reads_makes_an_edition_and_pictures_do_not(checkout: Path) -> None:
    assert data_directory(checkout) == data_directory(checkout / "data") == checkout / "data"
    domain = checkout / "data" / "tau2" / "domains" / "mock"
    guidelines = next((checkout / "data" / "tau2" / "user_simulator").glob("*.md"))
    read = (*(domain / name for name in ("policy.md", "db.json", "split_tasks.json", "more/text.txt")), guidelines)
    digests = [find_edition(chosen(checkout)).digest("mock")]
    for path in read:
        path.parent.mkdir(exist_ok=True)
        path.write_text((path.read_text() if path.exists() else "") + "\n")
        digests.append(find_edition(chosen(checkout)).digest("mock"))
    assert len(set(digests)) == len(read) + 1
    (domain / "flow.png").write_bytes(b"\x89PNG")
    assert find_edition(chosen(checkout)).digest("mock") == digests[-1]


def test_only_domains_with_data_and_code_are_there(checkout: Path) -> None:
    domains = checkout / "data" / "tau2" / "domains"
    if not index.has_code(index.find_installation(), "banking_knowledge"):
        (domains / "banking_knowledge").mkdir()
        shutil.copy(domains / "mock" / "tasks.json", domains / "banking_knowledge")
        assert "has code for" in registry.load("tau2", chosen(checkout)).absence("banking_knowledge")
    suite = registry.load("tau2", chosen(checkout))
    assert suite.available() == ("mock",)
    assert suite.absence("airline") == f"is not in tau2's data in {checkout / 'data'}; it has: mock"
    # Another suite object is what other settings come to.
    assert "airline" in registry.load("tau2", Settings()).available()


# --- spelling it ------------------------------------------------------------------------------------------------------


def test_places_are_made_absolute_and_have_data(tmp_path: Path) -> None:
    [option] = [o for o in SUITE.options if o.name == "tau2_data"]
    assert option.locate is not None
    assert option.locate("there", tmp_path) == str(tmp_path / "there")
    assert option.locate("installed", tmp_path) == "installed"
    with pytest.raises(ConfigurationError, match=r"--a2a-tau2-data: .*nowhere is not a directory"):
        find_edition(chosen(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"neither data/tau2/domains nor tau2/domains"):
        find_edition(chosen(tmp_path))
    (tmp_path / "tau2" / "domains").mkdir(parents=True)
    with pytest.raises(ConfigurationError, match=r"has tasks of no domain that the installed"):
        find_edition(chosen(tmp_path))


# --- trials on it -----------------------------------------------------------------------------------------------------


def test_golds_policy_and_database_are_the_checkouts_and_unknown_fields_do_no_harm(
    checkout: Path, run_trials: RunTrials
) -> None:
    news = {"issues": [{"id": "1", "title": "x"}], "required_documents": ["a"], "user_tools": []}
    change_tasks(checkout, lambda task: task.update(news))
    domain = checkout / "data" / "tau2" / "domains" / "mock"
    (domain / "policy.md").write_text("The policy of this edition.")
    database = json.loads((domain / "db.json").read_text())
    [user] = database["users"].values()
    user["name"] = "Somebody of this edition"
    (domain / "db.json").write_text(json.dumps(database))

    [result] = run_trials(oracle_of(checkout), chosen(checkout), [CREATE])
    assert result.success, (result.error, result.reward_info)
    assert TITLE in str(result.simulation)
    tau2 = upstream.load(data=checkout / "data")
    environment, _ = upstream.build_environment(tau2, "mock", None)
    assert environment.get_policy() == "The policy of this edition."
    assert "Somebody of this edition" in environment.tools.db.model_dump_json()
    # The next who asks for nothing gets what is installed.
    environment, _ = upstream.build_environment(upstream.load(), "mock", None)
    assert environment.get_policy() != "The policy of this edition."

    name = find_edition(chosen(checkout)).name("mock")
    assert result.provenance["edition"] == {"name": name, "said": str(checkout)}
    assert result.provenance["variant"] == f"data of {name}"


@pytest.mark.slow
def test_two_editions_in_one_process_never_meet(tmp_path: Path) -> None:
    places = []
    for number in range(2):
        root = make_checkout(tmp_path / str(number))
        (root / "data/tau2/domains/mock/policy.md").write_text(f"policy {number}")
        next((root / "data/tau2/user_simulator").glob("simulation_guidelines.md")).write_text(f"user {number}")
        places.append(root / "data")
    wrong: list[str] = []
    together = threading.Barrier(2)

    def build(number: int) -> None:
        message = __import__("tau2.user.user_simulator", fromlist=["x"])
        for _ in range(8):
            tau2 = upstream.load(data=places[number])
            together.wait()
            # The evaluator builds its own like this.
            policy = tau2.registry.get_env_constructor("mock")().get_policy()
            heard = message.get_global_user_sim_guidelines()
            wrong.extend(text for text in (policy, heard) if not text.endswith(f" {number}"))

    with ThreadPoolExecutor(2) as threads:
        assert list(threads.map(build, range(2))) == [None, None]
    assert wrong == []


def test_data_without_words_for_simulated_users_leave_the_installed_ones(checkout: Path) -> None:
    from tau2.user.user_simulator import get_global_user_sim_guidelines

    upstream.load()
    before = get_global_user_sim_guidelines()
    shutil.rmtree(checkout / "data" / "tau2" / "user_simulator")
    upstream.load(data=checkout / "data")
    assert get_global_user_sim_guidelines() == before


NEW_ACTION = {"env_type": "user", "func_name": "add_notification", "arguments": {}}


@pytest.mark.parametrize(
    ("member", "change", "expected"),
    [
        (
            "evaluation_criteria",
            {"reward_basis": ["KINDNESS"]},
            "cannot read task 'create_task_1' of mock in these data: evaluation_criteria.reward_basis",
        ),
        ("initial_state", {"initialization_actions": [NEW_ACTION]}, "is for newer code: "),
    ],
)
def test_a_task_beyond_the_installed_code_is_one_line(
    checkout: Path, run_trials: RunTrials, member: str, change: dict[str, Any], expected: str
) -> None:
    change_tasks(checkout, lambda task: task.update({member: {**(task.get(member) or {}), **change}}))
    [result] = run_trials("oracle", chosen(checkout), [CREATE])
    assert (result.status, result.error_type) == ("infrastructure_error", "ConfigurationError")
    assert expected in str(result.error)
    assert "\n" not in str(result.error)
    # Counted among the trials on the same data, and not among plain ones.
    assert registry.variant_of(result) == find_edition(chosen(checkout)).variant("mock")


@in_one_test("content", ["version https://git-lfs.github.com/spec/v1", '{"tasks": 7, "users": {}}'])
def test_a_database_that_cannot_be_read_is_one_line(checkout: Path, run_trials: RunTrials, content: str) -> None:
    (checkout / "data/tau2/domains/mock/db.json").write_text(content)
    [result] = run_trials("oracle", chosen(checkout), [CREATE])
    assert result.error_type == "ConfigurationError"
    assert "the domain mock cannot be read from tau2's data in" in str(result.error)
    assert "\n" not in str(result.error)


def test_missing_files_are_reported_before_the_first_conversation(checkout: Path) -> None:
    (checkout / "data/tau2/domains/mock/db.json").unlink()
    for policy in (checkout / "data/tau2/domains/mock").glob("*policy*"):
        policy.unlink()
    problems = list(SUITE.preconditions(["mock"], chosen(checkout), {}))
    assert [p.partition(" (")[0].rpartition(" ")[2] for p in problems] == ["database", "policy"]


@in_one_test("content", ["{}", "[7]", '[{"name": "no id"}]', "nothing"])
def test_tasks_that_are_none(checkout: Path, content: str) -> None:
    (checkout / "data/tau2/domains/mock/tasks.json").write_text(content)
    with pytest.raises(ConfigurationError, match=r"tasks\.json (cannot be read as JSON|is not a file of tau2 tasks)"):
        index.load_task_json("mock", "create_task_1", checkout / "data")


# --- kept apart -------------------------------------------------------------------------------------------------------


def test_they_are_never_averaged_or_compared(both: tuple[TrialResult, TrialResult]) -> None:
    plain, other = both
    name = other.provenance["edition"]["name"]
    # The oracle's golds are the installed ones.
    assert other.reward_info is not None
    assert any(TITLE in line for line in other.reward_info.db_diff)
    parts = summarise(both, registry.variant_of)
    assert [(p.variant, p.successes, p.trials) for p in parts] == [("", 1, 1), (f"data of {name}", 0, 1)]
    distribution = index.find_installation().distribution
    found = compare(Baseline.of([plain]), Baseline.of([other]))
    assert found.differences == (f"tau2/mock: benchmark was {distribution} and is {distribution} with data of {name}",)
    assert not compare(Baseline.of([other]), Baseline.of([dataclasses.replace(other, provenance={
        **other.provenance, "edition": {"name": name, "said": "/elsewhere"}
    })])).differences  # fmt: skip


def write_shards(tmp_path: Path, results: Sequence[TrialResult], places: Sequence[Path | str] = ()) -> list[Path]:
    """Write each result as a shard of its own, with what was said of where its data are."""
    trials = [dataclasses.replace(r, key=dataclasses.replace(CREATE, trial=n)) for n, r in enumerate(results)]
    parts = [write_run(tmp_path / f"shard-{n}", [trial], run_id=str(n)) for n, trial in enumerate(trials)]
    for part, place in itertools.zip_longest(parts, places):
        written = manifest.load(part)
        settings = {**written.settings, **({"tau2_data": str(place)} if place else {})}
        whole = tuple(str(trial.key) for trial in trials)
        dataclasses.replace(written, whole=whole, settings=settings).write(part)
    return parts


def test_shards_of_different_data_are_not_merged(
    both: tuple[TrialResult, TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    message = r"tau2/mock is \S+ \S+ in \S*shard-0, and .* with data of \w{12} in \S*shard-1$"
    with pytest.raises(MergeError, match=message):
        merge(write_shards(tmp_path, both), tmp_path / "both")
    parts = write_shards(tmp_path, both, ["installed", "/there"])
    assert main(["merge", *map(str, parts), "-o", str(tmp_path / "both")]) == 2
    said = capsys.readouterr().err
    assert "shard-0 (--a2a-tau2-data installed), and " in said
    assert "shard-1 (--a2a-tau2-data /there)" in said
    assert not (tmp_path / "both").exists()


def test_shards_of_the_same_data_in_different_places_are_one_run_if_each_tells_of_its_data(
    both: tuple[TrialResult, TrialResult], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    parts = write_shards(tmp_path, [both[1], both[1]], ["/here", "/there"])
    assert main(["merge", *map(str, parts), "-o", str(tmp_path / "both")]) == 0
    assert "2 trials of 2 directories" in capsys.readouterr().out
    assert {r.provenance["edition"]["name"] for r in manifest.load_selected(tmp_path / "both").results} == {
        both[1].provenance["edition"]["name"]
    }
    broken = dataclasses.replace(both[1], status="infrastructure_error", reward_info=None, error="gone", provenance={})
    parts = write_shards(tmp_path / "broken", [both[1], broken], ["/here", "/there"])
    assert main(["merge", *map(str, parts), "-o", str(tmp_path / "neither")]) == 2
    assert "tau2_data differs: '/here' in " in capsys.readouterr().err


def test_a_result_is_reused_wherever_its_data_are_now(
    both: tuple[TrialResult, TrialResult], checkout: Path, tmp_path: Path, run_trials: RunTrials
) -> None:
    elsewhere = tmp_path / "elsewhere"
    shutil.copytree(checkout, elsewhere)
    [moved] = run_trials("oracle", chosen(elsewhere), [CREATE])
    assert moved.fingerprint == both[1].fingerprint != both[0].fingerprint
    change_tasks(elsewhere, lambda task: task["evaluation_criteria"].update(communicate_info=["x"]))
    [changed] = run_trials("oracle", chosen(elsewhere), [CREATE])
    assert changed.fingerprint != moved.fingerprint


def write_chosen(directory: Path, results: list[TrialResult], settings: Settings) -> Path:
    """Write a run that says which data it was held on."""
    write_run(directory, results)
    asked = manifest.load(directory)
    dataclasses.replace(asked, settings={**asked.settings, **settings.benchmark_options}).write(directory)
    return directory


def test_exports_name_the_checkout(both: tuple[TrialResult, TrialResult], checkout: Path, tmp_path: Path) -> None:
    directory = write_chosen(tmp_path / "run", [both[1]], chosen(checkout))
    name = both[1].provenance["edition"]["name"]
    data, _ = export(manifest.load_selected(directory))
    assert TITLE in json.dumps(data["tasks"])
    assert data["a2a_bench"]["edition"] == [name]
    assert data["info"]["git_commit"].endswith(f"with data of {name}")

    change_tasks(checkout, lambda task: task["evaluation_criteria"].update(communicate_info=["x"]))
    with pytest.raises(ConfigurationError, match=rf"run on the data {name}; those of .* are \w{{12}} by now"):
        export(manifest.load_selected(directory))
    mixed = write_chosen(
        tmp_path / "mixed", [both[0], dataclasses.replace(both[1], key=dataclasses.replace(CREATE, trial=1))],
        chosen(checkout),
    )  # fmt: skip
    with pytest.raises(ConfigurationError, match="are of several editions"):
        export(manifest.load_selected(mixed))


def test_rescoring_says_its_edition(both: tuple[TrialResult, TrialResult], checkout: Path, tmp_path: Path) -> None:
    directory = write_chosen(tmp_path / "run", [both[0]], Settings())
    name = both[1].provenance["edition"]["name"]
    assert (
        main(["gate", "--rescore", str(directory), "--set", f"tau2-data={checkout}", "-o", str(tmp_path / "again")])
        == 1
    )
    [result] = manifest.load_selected(tmp_path / "again").results
    assert not result.success
    assert registry.variant_of(result) == f"data of {name}"
    assert result.provenance["rescored_from"]["benchmark"] == index.find_installation().distribution
