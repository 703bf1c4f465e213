"""CRMArena's options: what each value means, and which do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.cli import doctor
from pytest_a2a_bench.plugin.run import options
from pytest_a2a_bench.plugin.run.options import Resolution
from pytest_a2a_bench.settings import Settings


def resolved(
    cli: dict[str, Any], *, environ: dict[str, str] | None = None, ini: dict[str, str] | None = None, root: Path
) -> Resolution:
    """Resolve options in a project at ``root`` that pytest was started in the directory ``sub`` of."""
    config: Any = SimpleNamespace(
        getoption=lambda name, default=None: cli.get(name, default),
        getini=lambda name: (ini or {}).get(name),
        rootpath=root,
        invocation_params=SimpleNamespace(dir=root / "sub"),
    )
    return options.resolve(config, environ or {})


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub" / "data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    return tmp_path


def test_every_spelling_reaches_the_settings(root: Path) -> None:
    found = resolved(
        {"a2a_crm_scoring": "fixed", "a2a_crm_aided": "on", "a2a_crm_threshold": "0.75"},
        environ={"A2A_CRM_DRIFT": "high", "A2A_CRM_SCORING": "compat"},
        ini={"a2a_crm_rot": "true", "a2a_crm_max_turns": "7", "a2a_crm_max_user_turns": "2"},
        root=root,
    )
    assert not found.problems
    s = found.settings
    crm = CrmOptions.of(s)
    assert (crm.scoring, crm.aided, crm.threshold) == ("fixed", True, 0.75)
    assert (crm.drift, crm.rot, crm.max_turns, crm.max_user_turns) == ("high", True, 7, 2)
    assert Settings.from_json(s.to_json()) == s


def test_none_takes_back_a_drift_of_the_ini_file(root: Path) -> None:
    found = resolved({"a2a_crm_drift": "none"}, ini={"a2a_crm_drift": "low"}, root=root)
    assert CrmOptions.of(found.settings).drift is None


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("cli", "data", "{root}/sub/data"),
        ("env", "data", "{root}/sub/data"),
        ("ini", "data", "{root}/data"),
        ("cli", "hub:data", "hub:{root}/sub/data"),
        ("ini", "hub@0f3a:data", "hub@0f3a:{root}/data"),
    ],
)
def test_where_the_data_is(root: Path, source: str, text: str, expected: str) -> None:
    cli = {"a2a_crm_data": text} if source == "cli" else {}
    environ = {"A2A_CRM_DATA": text} if source == "env" else {}
    ini = {"a2a_crm_data": text} if source == "ini" else {}
    found = resolved(cli, environ=environ, ini=ini, root=root)
    assert not found.problems
    assert CrmOptions.of(found.settings).data == expected.format(root=root)


@pytest.mark.parametrize("source", ["hub", "hub@0f3a"])
def test_the_hub_alone_does_for_a_live_org_and_for_a_list(root: Path, source: str) -> None:
    for more in ({"a2a_crm_org": "salesforce"}, {"collectonly": True}):
        found = resolved({"a2a_crm_data": source, **more}, root=root)
        assert not found.problems
        assert CrmOptions.of(found.settings).data == source
    (problem,) = resolved({"a2a_crm_data": source}, root=root).problems
    assert problem.startswith(f"--a2a-crm-data={source}: the hub has tasks but no rows of an org: pass {source}:DIR")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"a2a_crm_data": "nowhere"}, "nowhere is not a directory"),
        ({"a2a_crm_data": "hub@"}, "'hub@' is no source on the hub"),
        ({"a2a_crm_data": "hub:"}, "'hub:' is no source on the hub"),
        ({"a2a_crm_data": "hub:nowhere"}, "nowhere is not a directory"),
        ({"a2a_crm_max_turns": "0"}, "--a2a-crm-max-turns: '0' is not a whole number of at least 1"),
        ({"a2a_crm_threshold": "0"}, "--a2a-crm-threshold: '0' is not a number above 0 and up to 1"),
        ({"a2a_crm_threshold": "nan"}, "'nan' is not a number above 0"),
        ({"a2a_crm_org": "cloud"}, "'cloud' is not one of local, salesforce"),
        ({"a2a_crm_org": "salesforce"}, "has rows and no tasks: add --a2a-crm-data"),
        ({"a2a_crm_org": "salesforce", "a2a_crm_data": "hub", "a2a_crm_drift": "low"}, "of a local org only"),
    ],
)
def test_wrong_values(root: Path, values: dict[str, str], problem: str) -> None:
    (found,) = resolved(values, root=root).problems
    assert problem in found


def told(environ: Mapping[str, str]) -> str:
    return "\n".join(f"{what}: {found}" for what, found in doctor.installed(environ))


def test_doctor_tells_what_there_is_of_crmarena(root: Path) -> None:
    printed = told({"A2A_CRM_DATA": str(root / "data"), "SALESFORCE_USERNAME": "ann"})
    assert f"mini 220; A2A_CRM_DATA is {root / 'data'}" in printed
    assert "no complete credentials (set: SALESFORCE_USERNAME)" in printed
    environ = {"SALESFORCE_INSTANCE_URL": "https://x.example", "SALESFORCE_ACCESS_TOKEN": "s3cret"}
    printed = told(environ)
    assert "mini 220; A2A_CRM_DATA is not set" in printed
    assert "credentials for x.example" in printed
    assert "s3cret" not in printed


@pytest.mark.parametrize(
    ("given", "checkout", "strategy", "privacy"),
    [
        ("CRMArena", "CRMArena", "react", False),
        ("~/up:act", str(Path("~/up").expanduser()), "act", False),
        ("/up:react+privacy", "/up", "react", True),
        ("C:tool_call_flex", "C", "tool_call_flex", False),
    ],
)
def test_upstreams_checkout_and_agent_are_one_option(
    root: Path, given: str, checkout: str, strategy: str, privacy: bool
) -> None:
    crm = CrmOptions.of(resolved({"a2a_crm_official": given}, root=root).settings)
    assert (crm.checkout, crm.strategy, crm.privacy_prompt) == (str(root / "sub" / checkout), strategy, privacy)
    assert (crm.profile, crm.scoring) == ("official", "compat")
