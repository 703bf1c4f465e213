"""What a project has beside its code: readable, and true."""

from __future__ import annotations

import re
import subprocess
import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml

import pytest_a2a_bench

ROOT = Path(__file__).parents[2]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")


def workflow(name: str) -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


@pytest.mark.parametrize("path", sorted((ROOT / ".github").rglob("*.yml")), ids=lambda p: p.stem)
def test_forms_and_workflows_can_be_read(path: Path) -> None:
    found = yaml.safe_load(path.read_text(encoding="utf-8"))
    assert "name" in found
    assert ("body" in found) != ("jobs" in found)


def test_a_release_is_of_the_version_that_its_tag_names(tmp_path: Path) -> None:
    (check,) = (s["run"] for s in workflow("release.yml")["jobs"]["build"]["steps"] if s.get("name"))
    (tmp_path / "dist").mkdir()
    (tmp_path / "dist" / "pytest_a2a_bench-1.2.3-py3-none-any.whl").touch()

    def run(tag: str) -> int:
        script = ["bash", "-c", check]
        return subprocess.run(script, cwd=tmp_path, env={"GITHUB_REF_NAME": tag, "PATH": "/usr/bin:/bin"}).returncode

    assert run("v1.2.3") == 0
    assert run("v1.2.4") != 0


def test_versions_agree() -> None:
    assert PROJECT["project"]["version"] == pytest_a2a_bench.__version__


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    links = re.findall(r"\]\((?!https?://|#)([^)#]+)", (ROOT / name).read_text(encoding="utf-8"))
    assert [link for link in links if not (ROOT / link).exists()] == []


def test_an_index_page_gets_whole_links() -> None:
    (rule,) = PROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]["substitutions"]
    text = (ROOT / "README.md").read_text(encoding="utf-8")

    shown = re.sub(rule["pattern"], rule["replacement"], text)

    relative = re.findall(r"\]\((?!https?://|#)[^)]+\)", text)
    assert relative
    assert not re.findall(r"\]\((?!https?://|#)[^)]+\)", shown)
    assert shown.count("/blob/main/") == len(relative)
