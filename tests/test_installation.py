"""Printed commands install the copy that runs, wherever it came from."""

import json
from pathlib import Path
from typing import Any

import pytest

from pytest_a2a_bench import installation
from pytest_a2a_bench.errors import MissingExtraError


@pytest.mark.parametrize(
    ("direct_url", "command"),
    [
        (None, "pip install 'pytest-a2a-bench[grpc]'"),
        (
            {"url": "https://example.org/b.git", "vcs_info": {"vcs": "git", "commit_id": "c0ffee"}},
            "pip install 'pytest-a2a-bench[grpc] @ git+https://example.org/b.git@c0ffee'",
        ),
        ({"url": "{here}", "dir_info": {}}, "pip install '{path}[grpc]'"),
        ({"url": "{here}", "dir_info": {"editable": True}}, "pip install -e '{path}[grpc]'"),
        ({"url": "file:///there/is/none", "dir_info": {}}, "pip install 'pytest-a2a-bench[grpc]'"),
    ],
    ids=["index", "git", "directory", "editable", "directory-gone"],
)
def test_an_extra_is_installed_from_where_the_copy_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, direct_url: dict[str, Any] | None, command: str
) -> None:
    clone = tmp_path / "a clone"
    clone.mkdir()

    class Installed:
        def read_text(self, name: str) -> str | None:
            assert name == "direct_url.json"
            return None if direct_url is None else json.dumps(direct_url).replace("{here}", clone.as_uri())

    monkeypatch.setattr(installation, "distribution", lambda name: Installed())
    assert str(MissingExtraError("grpcio", "grpc")) == (
        f"grpcio is not installed; run: {command.replace('{path}', str(clone))}"
    )
