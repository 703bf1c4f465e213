"""Environment variables from a file that was named: how it is read, lent and hidden."""

from pathlib import Path

import pytest

from pytest_a2a_bench.config.load import lend_variables, read_env_file
from pytest_a2a_bench.errors import ConfigurationError


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("A=b", {"A": "b"}),
        ("  export A = b c  ", {"A": "b c"}),
        ("A=b # c", {"A": "b"}),
        ("A=b#c", {"A": "b#c"}),
        ("A=# c", {"A": ""}),
        ("A=", {"A": ""}),
        ("A='b # \"c\"' # d", {"A": 'b # "c"'}),
        (r'A="b\n\"c\" \\"', {"A": 'b\n"c" \\'}),
        ("A=$HOME", {"A": "$HOME"}),
        ("A=sk-1=2==", {"A": "sk-1=2=="}),
        ("# A=b\n\n\ufeff", {}),
    ],
)
def test_lines(line: str, expected: dict[str, str], tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(line.replace("\ufeff", ""), encoding="utf-8-sig")
    assert read_env_file(path) == expected


@pytest.mark.parametrize(
    "line", ["sk-secret", "1A=sk-secret", "A B=sk-secret", "A='sk-secret", 'A="sk-secret" x', "=sk-secret"]
)
def test_wrong_lines_are_named_and_not_repeated(line: str, tmp_path: Path) -> None:
    path = tmp_path / "env"
    path.write_text(f"A=b\n{line}\n")
    with pytest.raises(ConfigurationError, match="line 2: ") as caught:
        read_env_file(path)
    assert "secret" not in str(caught.value)


def test_unreadable_files(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="No such file"):
        read_env_file(tmp_path / "absent")
    with pytest.raises(ConfigurationError, match="directory"):
        read_env_file(tmp_path)
    (tmp_path / "latin").write_bytes(b"A=\xff")
    with pytest.raises(ConfigurationError, match="not UTF-8"):
        read_env_file(tmp_path / "latin")


def test_lent_is_taken_back_and_nothing_else() -> None:
    environ = {"KEPT": "mine", "OTHER": "o"}
    take_back = lend_variables({"KEPT": "theirs", "NEW": "n", "CHANGED": "c"}, environ)
    assert environ == {"KEPT": "mine", "OTHER": "o", "NEW": "n", "CHANGED": "c"}
    environ["CHANGED"] = "by a test"
    take_back()
    assert environ == {"KEPT": "mine", "OTHER": "o", "CHANGED": "by a test"}
