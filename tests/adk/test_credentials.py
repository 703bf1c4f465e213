"""Credentials by name: whom they may be sent to, and that nobody sees them."""

from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pytest_a2a_bench.adk.credentials import choose, origin_of, read_credentials
from pytest_a2a_bench.adk.options import VARIABLES, AdkOptions
from pytest_a2a_bench.errors import ConfigurationError

KNOWN = read_credentials("SHOP@https://shop.example.com, LOCAL@http://127.0.0.1:9019/a2a")
ENVIRON = {"SHOP": "hunter2-hunter2", "LOCAL": "", "OPENAI_API_KEY": "sk-secret"}


def test_a_credential_is_of_one_origin() -> None:
    assert [(one.name, one.origin) for one in KNOWN] == [
        ("SHOP", "https://shop.example.com:443"),
        ("LOCAL", "http://127.0.0.1:9019"),
    ]
    assert choose("SHOP", "https://shop.example.com/agent", KNOWN, ENVIRON) == "SHOP"


def test_the_only_one_of_an_origin_need_not_be_named() -> None:
    assert choose("", "https://shop.example.com/agent", KNOWN, ENVIRON) == "SHOP"
    assert choose("", "https://other.example.com/", KNOWN, ENVIRON) is None
    assert choose("", "http://127.0.0.1:9019/", KNOWN, ENVIRON) is None


@pytest.mark.parametrize(
    ("name", "endpoint", "told"),
    [
        ("sk-live-1234567", "https://shop.example.com/", "takes the name of a credential"),
        ("OPENAI_API_KEY", "https://shop.example.com/", "takes the name of a credential"),
        ("SHOP", "https://evil.example.com/", "may only be sent to https://shop.example.com:443"),
        ("SHOP", "http://shop.example.com/", "may only be sent to"),
        ("LOCAL", "http://127.0.0.1:9019/", "is not set"),
    ],
)
def test_what_is_refused(name: str, endpoint: str, told: str) -> None:
    with pytest.raises(ConfigurationError, match=told) as caught:
        choose(name, endpoint, KNOWN, ENVIRON)
    assert "sk-live" not in str(caught.value)


@pytest.mark.parametrize(
    "text", ["sk-live-1234567", "SHOP@", "@https://x/", "SHOP@ftp://x/", "SHOP@x", "A B@https://x"]
)
def test_what_is_no_credential_is_not_repeated(text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        AdkOptions.from_environment({"A2A_ADK_CREDENTIALS": text, "A2A_ADK_TIMEOUT": "-1"})
    assert "NAME@ORIGIN" in str(caught.value)
    assert "A2A_ADK_TIMEOUT is '-1'; Input should be greater than 0" in str(caught.value)
    assert text not in str(caught.value)


@given(st.text())
def test_any_url_has_an_origin_or_none(url: str) -> None:
    assert origin_of(url) == "" or origin_of(url).startswith(("http://", "https://"))


@given(st.sampled_from([one.name for one in VARIABLES]), st.text(st.characters(exclude_characters="\0"), max_size=20))
def test_any_setting_is_read_or_refused_in_words(name: str, text: str) -> None:
    with contextlib.suppress(ConfigurationError):
        assert isinstance(AdkOptions.from_environment({name: text}), AdkOptions)
