"""Pages of reports: texts are escaped, nothing comes from outside, and a missing template engine names its extra."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from embedbroker.cli.drill import drill
from embedbroker.report import Chart, Series, Stretch, lanes_of, load_templates, page

DEMO = {
    "objections": [],
    "day": Chart("orders <1>", 24.0, [Series("sent & read", "one", [(0.0, 1.0), (24.0, 1_200.0)])], x_unit="h"),
    "run": Chart("orders per second", 0.0, []),
    "states": ["live"],
    "rows": [("lost", "<none>")],
    "audited": ["'as' \"said\""],
}


@pytest.fixture
def no_jinja(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setitem(sys.modules, "jinja2", None)
    load_templates.cache_clear()
    yield
    load_templates.cache_clear()


def test_what_a_page_is_given_is_escaped() -> None:
    text = page("demo.html", **DEMO)
    assert "<td>&lt;none&gt;</td>" in text and "<p>&#39;as&#39; &#34;said&#34;</p>" in text
    assert 'aria-label="orders &lt;1&gt;"' in text and ">sent &amp; read</text>" in text
    assert "&lt;svg" not in text and "&lt;i class" not in text


def test_a_chart_ends_at_a_round_value_above_its_highest_point() -> None:
    chart = DEMO["day"]
    assert isinstance(chart, Chart)
    assert chart.y_ticks() == [0.0, 500.0, 1_000.0, 1_500.0]
    assert (chart.x(24.0), chart.y(1_500.0), chart.y(0.0)) == (chart.right, chart.top, chart.floor)
    assert Chart("nothing", 0.0, []).x_ticks() == [0.0]


def test_a_state_lasts_until_the_next_one_of_its_broker() -> None:
    changes = [(0.0, "a", "live"), (1.0, "b", "backup"), (2.5, "a", "down"), (9.0, "a", "live")]
    first, second = lanes_of(changes, 5.0, 1)
    assert first.stretches == [
        Stretch(0.0, 2.5, "live", "a: live from 0.0 s to 2.5 s"),
        Stretch(2.5, 5.0, "down", "a: down from 2.5 s to 9.0 s"),
    ]
    assert second.stretches == [Stretch(1.0, 5.0, "backup", "b: backup from 1.0 s to 5.0 s")]


@pytest.mark.usefixtures("no_jinja")
def test_without_the_template_engine_the_error_names_the_extras() -> None:
    with pytest.raises(ImportError, match=r"pip install 'embedbroker\[cli\]' or 'embedbroker\[spark\]'"):
        page("demo.html", **DEMO)


@pytest.mark.usefixtures("no_jinja")
def test_a_drill_without_the_template_engine_ends_before_it_begins(tmp_path: Path) -> None:
    ended = CliRunner().invoke(drill, ["--report", str(tmp_path / "report.html")])
    assert ended.exit_code == 2 and "jinja2 is missing; install the extra" in ended.output
    assert list(tmp_path.iterdir()) == []
