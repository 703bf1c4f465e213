"""CRMArena's options: what each value means, and which do not go together."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from pathlib import Path

import pytest
import resolved_settings

from pytest_a2a_bench.benchmarks.crmarena.options import CrmOptions
from pytest_a2a_bench.cli import doctor

resolved = partial(resolved_settings.resolved, started="sub")


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "sub" / "data").mkdir(parents=True)
    (tmp_path / "data").mkdir()
    return tmp_path


def test_every_spelling_reaches_the_settings(root: Path) -> None:
    found = resolved(
        root,
        {"a2a_crm_scoring": "fixed", "a2a_crm_aided": "on", "a2a_crm_threshold": "0.75"},
        environ={"A2A_CRM_DRIFT": "high", "A2A_CRM_SCORING": "compat"},
        table={"crm-rot": True, "crm-max-turns": 7, "crm-max-user-turns": "2"},
    )
    assert not found.problems
    s = found.settings
    crm = CrmOptions.of(s)
    assert (crm.scoring, crm.aided, crm.threshold) == ("fixed", True, 0.75)
    assert (crm.drift, crm.rot, crm.max_turns, crm.max_user_turns) == ("high", True, 7, 2)


def test_none_takes_back_a_drift_of_the_table(root: Path) -> None:
    found = resolved(root, {"a2a_crm_drift": "none"}, table={"crm-drift": "low"})
    assert CrmOptions.of(found.settings).drift is None


@pytest.mark.parametrize(
    ("source", "text", "expected"),
    [
        ("cli", "data", "{root}/sub/data"),
        ("env", "data", "{root}/sub/data"),
        ("table", "data", "{root}/data"),
        ("cli", "hub:data", "hub:{root}/sub/data"),
        ("table", "hub@0f3a:data", "hub@0f3a:{root}/data"),
    ],
)
def test_where_the_data_is(root: Path, source: str, text: str, expected: str) -> None:
    cli = {"a2a_crm_data": text} if source == "cli" else {}
    environ = {"A2A_CRM_DATA": text} if source == "env" else {}
    table = {"crm-data": text} if source == "table" else {}
    found = resolved(root, cli, environ=environ, table=table)
    assert not found.problems
    assert CrmOptions.of(found.settings).data == expected.format(root=root)


@pytest.mark.parametrize("source", ["hub", "hub@0f3a"])
def test_the_hub_alone_does_for_a_live_org_and_for_a_list(root: Path, source: str) -> None:
    for more in ({"a2a_crm_org": "salesforce"}, {"collectonly": True}):
        found = resolved(root, {"a2a_crm_data": source, **more})
        assert not found.problems
        assert CrmOptions.of(found.settings).data == source
    (problem,) = resolved(root, {"a2a_crm_data": source}).problems
    assert problem.startswith(f"--a2a-crm-data={source}: the hub has tasks but no rows of an org: pass {source}:DIR")


@pytest.mark.parametrize(
    ("values", "problem"),
    [
        ({"a2a_crm_data": "nowhere"}, "nowhere is not a directory"),
        ({"a2a_crm_data": "hub@"}, "'hub@' is no source on the hub"),
        ({"a2a_crm_data": "hub:"}, "'hub:' is no source on the hub"),
        ({"a2a_crm_data": "hub:nowhere"}, "nowhere is not a directory"),
        ({"a2a_crm_max_turns": "0"}, "--a2a-crm-max-turns: '0': input should be greater than or equal to 1"),
        ({"a2a_crm_threshold": "0"}, "--a2a-crm-threshold: '0': input should be greater than 0"),
        ({"a2a_crm_threshold": "nan"}, "'nan': input should be"),
        ({"a2a_crm_org": "cloud"}, "'cloud' is not one of local, salesforce"),
        ({"a2a_crm_org": "salesforce"}, "has rows and no tasks: add --a2a-crm-data"),
        ({"a2a_crm_org": "salesforce", "a2a_crm_data": "hub", "a2a_crm_drift": "low"}, "of a local org only"),
    ],
)
def test_wrong_values(root: Path, values: dict[str, str], problem: str) -> None:
    (found,) = resolved(root, values).problems
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
    crm = CrmOptions.of(resolved(root, {"a2a_crm_official": given}).settings)
    assert (crm.checkout, crm.strategy, crm.privacy_prompt) == (str(root / "sub" / checkout), strategy, privacy)
    assert (crm.profile, crm.scoring) == ("official", "compat")
