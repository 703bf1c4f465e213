"""Schema drift: new names work, old ones are refused, and the records are the same."""

from contextlib import closing
from dataclasses import replace

import pytest
from mini_org.org import schema_rows
from one_test import in_one_test
from small_org import plain

from pytest_a2a_bench.benchmarks.crmarena.org import OrgError, OrgSchema, SObject, read_published, standard_schema
from pytest_a2a_bench.benchmarks.crmarena.org.drift import SHARES, DriftLevel, drift_schema, drift_text, drifted
from pytest_a2a_bench.benchmarks.crmarena.org.local import LocalOrg

_LEVELS: list[DriftLevel] = ["low", "medium", "high"]


@in_one_test("level", _LEVELS)
def test_the_share_is_renamed_and_no_id(level: DriftLevel) -> None:
    fields = sum(field.type != "id" for sobject in standard_schema().objects for field in sobject.fields)
    objects = drift_schema(standard_schema(), level).objects
    renamed = {(each.name, field.column): field.name for each in objects for field in each.fields if field.column}
    assert len(renamed) == round(fields * SHARES[level])
    assert not any(old == "Id" for _, old in renamed)
    assert all(new.endswith("__c") == old.endswith("__c") for (_, old), new in renamed.items())


@in_one_test("seed", range(20))
def test_names_stay_apart(seed: int) -> None:
    for sobject in drift_schema(standard_schema(), "high", seed).objects:
        names = [field.name.lower() for field in sobject.all_fields]
        walks = [field.relationship.lower() for field in sobject.all_fields if field.relationship]
        assert len(set(names)) == len(names)
        assert len(set(walks)) == len(walks)


@pytest.mark.slow
@pytest.mark.parametrize("level", _LEVELS)
def test_every_field_by_its_new_name(org: LocalOrg, level: DriftLevel) -> None:
    with closing(drifted(org, level, seed=3)) as changed:
        for before, after in zip(org.schema.objects, changed.schema.objects, strict=True):
            for old, new in zip(before.fields, after.fields, strict=True):
                values = [
                    plain(record)[old.name] for record in org.run(f"SELECT {old.name} FROM {before.name}").records
                ]
                records = changed.run(f"SELECT {new.name} FROM {after.name}").records
                assert [plain(record) for record in records] == [{new.name: value} for value in values]
                if old.name != new.name and old.name.lower() not in {each.name.lower() for each in after.fields}:
                    with pytest.raises(OrgError, match=f"No such column '{old.name}' on entity '{before.name}'"):
                        changed.run(f"SELECT {old.name} FROM {after.name}")


def test_a_reference_takes_its_relationship_along(org: LocalOrg) -> None:
    with closing(drifted(org, "high", seed=0)) as changed:
        moved = [
            (sobject.name, field)
            for sobject in changed.schema.objects
            for field in sobject.fields
            if field.column and field.refers_to and field.refers_to[0] == "Account"
        ]
        assert moved
        for name, field in moved:
            stem = field.name.removesuffix("Id") if not field.custom else field.name.replace("__c", "__r")
            assert field.relationship == stem
            changed.run(f"SELECT {field.relationship}.Id FROM {name}")


def test_the_agent_is_told_the_new_names(org: LocalOrg) -> None:
    message = {each["object"]: each["fields"] for each in schema_rows(drift_schema(standard_schema(), "medium"))}
    assert message["Account"]["Label"] == "Name of the company"
    assert "Name" not in message["Account"]


def test_drift_of_a_drifted_org(org: LocalOrg) -> None:
    with closing(drifted(org, "medium", seed=1)) as once:
        twice = drifted(once, "medium", seed=2)
    with closing(twice):
        names = [field.name for field in twice.schema.objects[3].fields]
        assert twice.run(f"SELECT {', '.join(names)} FROM Case").total_size == 7


def test_texts_call_fields_by_their_new_names() -> None:
    fields = {
        "Case": {"AccountId": "", "StageName": "", "Status": ""},
        "VoiceCallTranscript__c": {"LeadId__c": ""},
        "Order": {"AccountId": "", "StageName": ""},
        "Account": {},
        "Lead": {},
    }
    before = read_published([{"object": name, "fields": {"Id": "", **each}} for name, each in fields.items()])
    new = {"AccountId": "ClientId", "Account": "Client", "LeadId__c": "ProspectId__c", "LeadId__r": "ProspectId__r"}
    new |= {"Status": "Progress"}

    def renamed(sobject: SObject) -> SObject:
        here = new if sobject.name == "Order" else new | {"StageName": "PhaseName"}
        changed = [
            replace(each, name=here.get(each.name, each.name), relationship=here.get(str(each.relationship)))
            for each in sobject.fields
        ]
        return replace(sobject, fields=tuple(changed))

    after = OrgSchema(tuple(renamed(sobject) for sobject in before.objects))
    assert drift_text("its AccountId, by LeadId__c.", before, after) == "its ClientId, by ProspectId__c."
    assert drift_text("the LeadId__r of it", before, after) == "the ProspectId__r of it"
    assert drift_text("If StageName fits", before, after) == "If StageName (in Case: PhaseName) fits"
    for text in ("The Account has the Status New", "AccountIds and MyLeadId__c", "LEADID__C", "003Mn0000000byqIAA", ""):
        assert drift_text(text, before, after) == text
    assert drift_text("its AccountId", before, before) == "its AccountId"
