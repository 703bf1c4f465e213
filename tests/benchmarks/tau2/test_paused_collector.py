"""The garbage collector is off inside, and as it was found outside."""

from __future__ import annotations

import gc

import pytest

from pytest_a2a_bench.benchmarks.tau2.upstream import paused_collector


def test_it_is_off_inside_and_on_again_outside() -> None:
    with paused_collector():
        assert not gc.isenabled()
    assert gc.isenabled()


def test_an_exception_does_not_leave_it_off() -> None:
    with pytest.raises(ValueError, match="x"), paused_collector():
        raise ValueError("x")
    assert gc.isenabled()


def test_a_user_who_switched_it_off_keeps_it_off() -> None:
    gc.disable()
    try:
        with paused_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
