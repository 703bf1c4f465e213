"""The example of a benchmark of one's own: it runs, gates and reports without a line of ours that knows it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from builtin_server import served
from harness import Bench, url_of, verdict_of

EXAMPLE = Path(__file__).parents[2] / "example_suites" / "own_benchmark"


@pytest.fixture(scope="module")
def agent_url() -> Iterator[str]:
    """The example's agent, in a process of its own."""
    with url_of(sys.executable, EXAMPLE / "agent.py") as url:
        yield url


@pytest.fixture
def shop(bench: Bench, agent_url: str) -> Bench:
    """Run pytest in a copy of the example."""
    bench.copy_files(EXAMPLE)
    return bench.with_options("--a2a-endpoint", agent_url)


def test_it_runs_gates_and_reports(shop: Bench) -> None:
    result = shop("--a2a-min-pass=0.3,change=0.2", "--a2a-html=page.html", "--junitxml=junit.xml")
    assert result.ret == 0
    result.stdout.fnmatch_lines(
        [
            "domain *",
            "shop/orders *3 *",
            "category *",
            "question *1 *1 *1.000*",
            "change *2 *1 *0.500*",
            "benchmark: shop 1; *",
            "missed (1; --a2a-missed runs these again):",
            "*passed,*1 missed*",
        ],
        consecutive=False,
    )
    verdict = verdict_of(shop)
    assert [m["key"] for m in verdict["missed"]] == ["shop/orders/cancel-a1#0"]
    assert "shop/orders" in (shop.path / "page.html").read_text()
    assert "a2a.category" in (shop.path / "junit.xml").read_text()


def test_a_suite_that_no_test_runs_is_refused(shop: Bench) -> None:
    shop.makepyfile(test_shop="def test_nothing(): pass")
    said = shop.refused("--a2a-suite=orders")
    said.fnmatch_lines(["ERROR: --a2a-suite=orders: nothing built-in runs it, *, with @pytest.mark.shop(?orders?)"])
    shop.makeconftest("def pytest_a2a_bench_suites(): return ['shop:SUITE']")
    assert shop.refused().str().startswith("ERROR: pytest_a2a_bench_suites must return a list of Suite objects; it ")


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({'name="shop"': 'name="tau2"'}, "suite 'tau2' has the name of a built-in one; give it another"),
        ({"=ShopSettings": "=ShopSettings()"}, "suite 'shop': settings must be a dataclass, and is *"),
        ({'BenchTask("shop"': 'BenchTask("x"'}, "*: the suite 'shop' has tasks of the suite 'x': BenchTask(*"),
        ({"in TASKS.items()]": "in ()]"}, "*: the suite 'shop' has no task in the domain 'orders'"),
        (
            {"patience:": "max_turns:", '"shop_"': '"crm_"'},
            "suite 'shop': there is another setting 'crm-max-turns' already*",
        ),
    ],
)
def test_mistakes_in_a_suite_are_refused_in_a_line(shop: Bench, changes: dict[str, str], said: str) -> None:
    benchmark = shop.path / "shop.py"
    for old, new in changes.items():
        assert old in benchmark.read_text()
        benchmark.write_text(benchmark.read_text().replace(old, new))
    # A gate that judged nothing must not pass.
    shop.refused("--a2a-min-pass=0.5").fnmatch_lines([f"ERROR: {said}"])


@pytest.mark.slow
def test_its_categories_domain_and_setting_are_like_any_other(shop: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    shop("-m", "question and orders", "test_shop.py").assert_outcomes(passed=1, deselected=2)
    assert shop("--a2a-min-pass=sales=0.5", "test_shop.py").ret == pytest.ExitCode.USAGE_ERROR
    shop.refused("--a2a-set=shop-patience=none").fnmatch_lines(
        ["ERROR: --a2a-set shop-patience: 'none' is not a whole number*"]
    )
    monkeypatch.setenv("A2A_SHOP_PATIENCE", "1")
    result = shop("-k", "status")
    result.assert_outcomes(failed=1)  # one turn is a tool call, and nothing was said yet


@pytest.mark.slow
def test_the_built_in_agents_play_its_golds(shop: Bench) -> None:
    shop("--a2a-endpoint=builtin:oracle").assert_outcomes(passed=3)
    shop("--a2a-endpoint=builtin:readonly").assert_outcomes(passed=2, failed=1)


@pytest.mark.slow
def test_a_player_that_cannot_be_imported_is_named(shop: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    (shop.path / "golds.py").write_text("import nowhere")
    monkeypatch.syspath_prepend(shop.path)
    player = quote('{"shop": "golds"}')
    with served(f"oracle?players={player}") as agent:
        text = shop("--a2a-endpoint", agent.url, "--a2a-set=tag-trials=on", "-k", "status").stdout.str()
    assert "the player of suite 'shop' cannot be loaded from 'golds': No module named 'nowhere'" in text
