"""The documentation names what the code has."""

import importlib.util
import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import public_api
import pytest
import yaml
from one_test import in_one_test

import pytest_a2a_bench
from pytest_a2a_bench.benchmarks import registry
from pytest_a2a_bench.cli import main
from pytest_a2a_bench.plugin import fixtures, items, options

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"


@pytest.mark.parametrize("name", ["settings", "commands"])
@pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="argparse lays its help out by the version of Python")
def test_the_reference_is_generated(name: str) -> None:
    path = ROOT / "tools" / f"{name}_reference.py"
    spec = importlib.util.spec_from_file_location(f"{name}_reference", path)
    assert spec is not None
    assert spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(tool)
    assert tool.PAGE.read_text(encoding="utf-8") == tool.page(), f"run: python tools/{path.name}"


def test_every_property_is_in_the_reference() -> None:
    text = (DOCS / "reference" / "results.md").read_text(encoding="utf-8")
    assert set(public_api.properties()) == set(re.findall(r"`(a2a\.\w+)`", text))


def test_every_marker_and_fixture_is_in_the_reference() -> None:
    page = (DOCS / "reference" / "markers-fixtures.md").read_text(encoding="utf-8")
    text = " ".join(page.split())
    signatures = [line.partition(":")[0] for line in items.lines(registry.built_in()) if "(" in line.partition(":")[0]]
    assert len(signatures) == 4
    assert [s for s in signatures if f"`@pytest.mark.{s}`" not in text] == []
    known = public_api._fixtures(fixtures)
    assert dict(re.findall(r"^\| `(\w+)` \| (function|session) \|", page, re.MULTILINE)) == known


def test_exit_codes_of_the_commands_are_in_the_reference() -> None:
    text = (DOCS / "reference" / "cli.md").read_text(encoding="utf-8")
    (message,) = re.findall(r"^Exit codes: [^.]*\.", text, re.MULTILINE)
    codes = {"0", "1", str(main.USAGE_ERROR), str(main.INTERRUPTED), str(main.TERMINATED)}
    assert set(re.findall(r"\d+", message)) == codes


@in_one_test("page", [ROOT / "README.md", *sorted(DOCS.rglob("*.md"))], ids=lambda p: p.stem)
def test_options_in_the_text_exist(page: Path) -> None:
    parser = pytest.Parser(_ispytest=True)
    options.add_options(parser)
    known = {name for group in parser._groups for option in group.options for name in option.names()}
    named = set(re.findall(r"--a2a-[a-z0-9-]*[a-z0-9]", page.read_text(encoding="utf-8")))
    assert named <= known


def test_anchors_exist_on_github_and_on_the_site() -> None:
    """Links to headings work where GitHub names the anchors, and where mkdocs does."""

    def prose(page: Path) -> str:
        return re.sub(r"```.*?```", "", page.read_text(encoding="utf-8"), flags=re.DOTALL)

    def anchors(page: Path, *, github: bool) -> set[str]:
        plain = [re.sub(r"[^\w\s-]", "", head.lower()).strip() for head in re.findall(r"^#+ (.*)$", prose(page), re.M)]
        named = re.findall(r'<a id="([^"]+)"', prose(page))
        return {*named, *(re.sub(r"\s" if github else r"[-\s]+", "-", head) for head in plain)}

    for page in (*ROOT.glob("*.md"), *DOCS.rglob("*.md")):
        for path, anchor in re.findall(r"\]\(([^)\s:#]*)#([^)\s]+)\)", prose(page)):
            target = (page.parent / path).resolve() if path else page
            for github in (True, False):
                assert anchor in anchors(target, github=github), f"{page}: {path}#{anchor} (on GitHub: {github})"


def test_the_public_names_exist_and_are_all_listed() -> None:
    assert set(pytest_a2a_bench.__all__) == {*pytest_a2a_bench._HOMES, "__version__"}
    for name in pytest_a2a_bench.__all__:
        assert getattr(pytest_a2a_bench, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nope'"):
        _ = pytest_a2a_bench.nope


# What a project has beside its code: readable, and true.


PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
PAGES = ("README.md", "CONTRIBUTING.md", "SECURITY.md", "ARCHITECTURE.md")


def workflow(name: str) -> Any:
    return yaml.safe_load((ROOT / ".github" / "workflows" / name).read_text(encoding="utf-8"))


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


def test_an_option_is_not_broken_at_its_hyphens() -> None:
    spec = importlib.util.spec_from_file_location("docs_hooks", ROOT / "tools" / "docs_hooks.py")
    assert spec is not None
    assert spec.loader is not None
    spec.loader.exec_module(hooks := importlib.util.module_from_spec(spec))
    html = "<p>a --b-c</p><code>a2a-bench x --a2a-trials=4 2 a-b</code>"
    whole = '<span class="option">--a2a-trials</span>'
    assert hooks.on_page_content(html) == html.replace("--a2a-trials", whole)
