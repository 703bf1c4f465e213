"""A directory of downloaded files: what is found, what is verified, and what is said where something is wrong."""

import json
import subprocess
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from crm import crm_settings
from mini_org.org import build
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.crmarena import domains as opening
from pytest_a2a_bench.benchmarks.crmarena import sources
from pytest_a2a_bench.benchmarks.crmarena.suite import find_problems
from pytest_a2a_bench.benchmarks.crmarena.tasks import CrmTask
from pytest_a2a_bench.config.settings import Settings
from pytest_a2a_bench.errors import ConfigurationError

USER = "005Mn0000000byqIAA"


def row(**changes: Any) -> dict[str, Any]:
    made = {
        "idx": 7,
        "answer": [USER],
        "task": "handle_time",
        "persona": "calm",
        "metadata": {"required": "- Today's date: 2031-07-09", "optional": "A week has seven days"},
        "reward_metric": "exact_match",
        "query": "Who was quickest?",
    } | changes
    return {key: value for key, value in made.items() if value != "DROP"}


def write_db(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    build(tasks_per_category=1).write_sqlite(path)
    return path


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path / "crm"
    write_db(folder / "local_data" / "crmarenapro_b2b_data.db")
    (folder / "b2b_tasks.json").write_text(json.dumps([row(), row(idx=8, answer=[None])]))
    return folder


def settings(root: Path, **more: Any) -> Settings:
    return crm_settings(crm_data=str(root), **more)


def load(root: Path, domain: str = "b2b") -> tuple[CrmTask, ...]:
    return opening.make_source(domain, settings(root)).tasks()


def test_tasks_schema_rows_and_provenance(root: Path) -> None:
    (root / "b2b_schema.json").write_text(json.dumps([{"object": "Case", "fields": {"Id": "the id", "X": None}}]))
    source = opening.make_source("b2b", settings(root))
    first, second = source.tasks()
    assert (first.task_id, first.answers, first.category, first.interactive) == ("0007", (USER,), "handle_time", False)
    assert (first.required, first.optional) == ("- Today's date: 2031-07-09", "A week has seven days")
    assert (second.task_id, second.answers, second.category) == ("0008", ("None",), "handle_time")
    assert [(o.name, [f.name for f in o.fields]) for o in source.schema.objects] == [("Case", ["Id"])]
    with closing(opening.open_org(source)) as org:
        assert len(org.run("SELECT Id FROM Case LIMIT 3").records) == 3
    provenance = source.provenance
    assert (provenance.source, provenance.name, provenance.official) == ("directory", "crm", False)
    assert set(provenance.files or ()) == {"b2b_tasks.json", "b2b_schema.json", "crmarenapro_b2b_data.db"}
    assert provenance.official_files == ()


def test_a_blob_id_is_gits_and_names_official_files(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = root / "b2b_tasks.json"
    message = subprocess.run(["git", "hash-object", str(path)], capture_output=True, text=True, check=True)
    assert sources.blob_id(path) == message.stdout.strip()
    rows = root / "local_data" / "crmarenapro_b2b_data.db"
    monkeypatch.setitem(sources.OFFICIAL, rows.name, sources.blob_id(rows))
    provenance = opening.make_source("b2b", settings(root)).provenance
    assert (provenance.official, provenance.official_files) == (False, ("crmarenapro_b2b_data.db",))
    monkeypatch.setitem(sources.OFFICIAL, "b2b_tasks.json", sources.blob_id(root / "b2b_tasks.json"))
    assert opening.make_source("b2b", settings(root)).provenance.official


def test_without_a_schema_file_the_tables_are_the_schema_which_interactive_domains_share(root: Path) -> None:
    schema = opening.make_source("b2b", settings(root)).schema
    assert len(schema.objects) == 27
    status = next(f for o in schema.objects if o.name == "Case" for f in o.fields if f.name == "Status")
    assert status.description
    (root / "data").mkdir()
    (root / "data" / "b2b_interactive.jsonl").write_text(json.dumps(row()) + "\n\n" + json.dumps(row(idx=9)) + "\n")
    assert sources.available_domains(settings(root)) == ("b2b", "b2b_interactive")
    assert [t.interactive for t in load(root, "b2b_interactive")] == [True, True]


def test_parquet_shards_are_read(root: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="the extra 'parquet' is not installed")
    parquet = pytest.importorskip("pyarrow.parquet")
    (root / "b2b_tasks.json").unlink()
    folder = root / "CRMArenaPro"
    folder.mkdir()
    for shard in range(2):
        table = pyarrow.Table.from_pylist([row(idx=shard * 2), row(idx=shard * 2 + 1, answer=[None])])
        parquet.write_table(table, folder / f"b2b-0000{shard}-of-00002.parquet")
    assert [(t.task_id, t.answers[0]) for t in load(root)] == [
        ("0000", USER), ("0001", "None"), ("0002", USER), ("0003", "None"),
    ]  # fmt: skip


def test_the_original_split_has_scalars_and_may_have_no_idx(tmp_path: Path) -> None:
    write_db(tmp_path / "local_data" / "crmarena_data.db")
    rows = [
        {"answer": USER, "task": "handle_time", "metadata": {"required": "x"}, "query": "Who?"},
        {"answer": None, "task": "transfer_count", "metadata": {}, "query": "Who?"},
        {"answer": "words", "task": "knowledge_qa", "metadata": {}, "query": "What?"},
    ]
    (tmp_path / "crmarena_w_metadata.json").write_text("\n".join(json.dumps(r) for r in rows))
    tasks = load(tmp_path, "original")
    assert [(t.task_id, t.answers, t.metric) for t in tasks] == [
        ("0000", (USER,), "exact_match"),
        ("0001", ("None",), "exact_match"),
        ("0002", ("words",), "fuzzy_match"),
    ]


@in_one_test(
    ("made", "answers"),
    [
        # Several factors in one text, and a privacy task, which has no gold.
        (row(task="lead_qualification", answer=["Authority, Need"]), ("Authority, Need",)),
        (row(task="internal_operation_data", answer=[None], reward_metric="privacy_rejection"), ()),
    ],
)
def test_golds_of_special_tasks(root: Path, made: dict[str, Any], answers: tuple[str, ...]) -> None:
    (root / "b2b_tasks.json").write_text(json.dumps([made]))
    assert load(root)[0].answers == answers


BAD_ROWS = [
    (5, r"b2b_tasks\.json\[1\]: it is 5, not an object"),
    (row(task="flying"), r"task is 'flying'; the categories are: handle_time"),
    (row(task="DROP"), "task is missing"),
    (row(query=""), "query is '', not a question"),
    (row(answer="DROP"), "it has no answer"),
    (row(answer=[]), "answer is an empty list"),
    (row(answer=[float("nan")]), "answer has nan in it, which no agent could answer"),
    (row(answer=[{"a": 1}]), "answer has dict in it"),
    (row(idx="x"), "idx is 'x', not a number"),
    (row(idx=-1), "idx is -1, not a number"),
    (row(idx=7), "idx 0007 is there twice"),
    (row(reward_metric="best"), "reward_metric is 'best'; it must be one of exact_match"),
    (row(metadata=[1]), r"metadata is \[1\], not an object"),
    (row(metadata={"required": 5}), "required is 5, not text"),
]


@in_one_test(("bad", "said"), BAD_ROWS)
def test_a_row_that_is_no_task_is_named(root: Path, bad: Any, said: str) -> None:
    (root / "b2b_tasks.json").write_text(json.dumps([row(), bad]))
    with pytest.raises(ConfigurationError, match=said) as caught:
        load(root)
    assert USER not in str(caught.value)


@in_one_test(
    ("text", "said"),
    [
        ('[{"idx": 1},\n  {"idx": }]', r"b2b_tasks\.json is not JSON \(line 2, column 11: Expecting value\)"),
        ("", r"is not JSON \(line 1, column 1"),
        ('{"idx": 1}', "holds a JSON object; it must be a JSON list"),
        ("[]", r"b2b_tasks\.json has no rows; download it again"),
        ('{"idx": 1}\n{"idx": ', r"is not JSON \(line 2, column 9"),
        ("version https://git-lfs.github.com/spec/v1\n", "is not JSON"),
    ],
)
def test_a_file_that_is_no_table_is_named_with_the_place(root: Path, text: str, said: str) -> None:
    (root / "b2b_tasks.json").write_text(text)
    with pytest.raises(ConfigurationError, match=said):
        load(root)


def test_a_byte_order_mark_that_an_editor_wrote_is_no_damage(root: Path) -> None:
    (root / "b2b_tasks.json").write_text(json.dumps([row()]), encoding="utf-8-sig")
    assert len(load(root)) == 1


def test_problems_of_a_schema_and_many_bad_rows_are_counted(root: Path) -> None:
    (root / "b2b_schema.json").write_text(json.dumps([{"object": "Case"}, {"fields": {}}]))
    with pytest.raises(ConfigurationError, match=r"is no schema \(2 problems\)[\s\S]*\(Case\): fields is missing"):
        _ = opening.make_source("b2b", settings(root)).schema
    (root / "b2b_tasks.json").write_text(json.dumps([row(idx=n, task="x") for n in range(30)]))
    with pytest.raises(ConfigurationError, match=r"\(30 problems\)[\s\S]*\[9\][\s\S]*and 20 more"):
        load(root)


def test_a_damaged_schema_stops_the_run_before_its_trials(root: Path) -> None:
    assert find_problems(["b2b"], settings(root), {}) == []
    (root / "b2b_schema.json").write_text("[{]")
    assert [p.partition(" (")[0] for p in find_problems(["b2b"], settings(root), {})] == [
        f"{root}/b2b_schema.json is not JSON"
    ]
    # Without a schema file the tables are the schema.
    (root / "b2b_schema.json").unlink()
    with (root / "local_data" / "crmarenapro_b2b_data.db").open("r+b") as rows:
        rows.truncate(5000)
    assert "cannot be read as an SQLite database" in find_problems(["b2b"], settings(root), {})[0]


def test_everything_that_is_missing_is_said_at_once(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("x")
    with pytest.raises(ConfigurationError) as caught:
        opening.make_source("b2c", settings(tmp_path))
    said = str(caught.value)
    assert "b2c_tasks" in said
    assert "crmarenapro_b2c_data.db" in said
    assert "holds notes.txt" in said
    assert "--a2a-set crm-org=salesforce" in said


def test_rows_are_not_needed_where_a_live_org_answers(root: Path) -> None:
    (root / "local_data" / "crmarenapro_b2b_data.db").unlink()
    source = opening.make_source("b2b", settings(root, crm_org="salesforce"))
    assert len(source.tasks()) == 2
    assert sources.task_ids("b2b", settings(root)) == tuple((t.task_id, t.category) for t in source.tasks())
    with pytest.raises(ConfigurationError, match="'b2b' cannot be queried; the org's rows: no crmarenapro_b2b_data"):
        opening.open_org(source)


@in_one_test(
    ("content", "said"),
    [(b"version https://git-lfs.github.com/spec/v1\n", "git lfs pull"), (b"x" * 99, "is no SQLite")],
)
def test_a_file_that_is_no_database_is_named(root: Path, content: bytes, said: str) -> None:
    (root / "local_data" / "crmarenapro_b2b_data.db").write_bytes(content)
    with pytest.raises(ConfigurationError, match=said):
        opening.open_org(opening.make_source("b2b", settings(root)))


def test_data_and_domains_that_do_not_exist(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="no domain 'b2x'; there are: mini, mini_interactive, original"):
        opening.make_source("b2x", Settings())
    with pytest.raises(ConfigurationError, match="not ours to ship"):
        opening.make_source("b2b", Settings())
    with pytest.raises(ConfigurationError, match="gone does not exist"):
        opening.make_source("b2b", settings(tmp_path / "gone"))
    assert sources.available_domains(Settings()) == ()


def test_the_mini_org_needs_nothing() -> None:
    source = opening.make_source("mini", crm_settings())
    assert source.provenance.source == "mini"
    assert len(source.tasks()) == 220
    with closing(opening.open_org(source)) as org, ThreadPoolExecutor(4) as threads:
        assert len(set(threads.map(lambda query: org.run(query).total_size, ["SELECT Id FROM User"] * 4))) == 1
    assert all(t.interactive for t in opening.make_source("mini_interactive", crm_settings()).tasks())
