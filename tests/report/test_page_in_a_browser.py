"""The page as a reviewer meets it: in a real browser, offline, with and without scripts."""

from __future__ import annotations

from pathlib import Path

from kevolve.population import Population
from kevolve.report.findings.history import history_of
from kevolve.report.write import write_page
from tests.browser import Tab, browse
from tests.report.long_run import events

POINT = """(() => {
  const svg = document.querySelector('.canvas svg'), box = svg.getBoundingClientRect();
  const dot = svg.querySelector('.dot.%s').getAttribute('d').match(/M([\\d.]+) ([\\d.]+)h0/);
  const scale = box.width / 800, at = { clientX: box.left + dot[1] * scale, clientY: box.top + dot[2] * scale };
  svg.dispatchEvent(new PointerEvent('pointermove', { ...at, bubbles: true }));
  return document.querySelector('.tip').innerText;
})()"""
FILTER = """(() => {
  const input = document.querySelector('.filter input');
  input.value = 'prefetch';
  input.dispatchEvent(new Event('input'));
  const left = document.querySelector('.dot.scored').getAttribute('d').length;
  return [document.querySelector('.filter output').innerText, left];
})()"""


def test_a_run_of_ten_thousand_programs_opens_at_once_and_every_program_can_be_pointed_at(tmp_path: Path) -> None:
    with Population(tmp_path / "long") as population:
        page = write_page(history_of(population.folder, events(population, 10_000)), tmp_path / "page.html")
    assert page.stat().st_size < 5_000_000

    async def visit(tab: Tab) -> None:
        await tab.open(page.as_uri())
        took = "performance.timing.loadEventEnd - performance.timing.navigationStart"
        await tab.wait_for("performance.timing.loadEventEnd > 0")
        assert await tab.value(took) < 2000
        assert await tab.value("performance.getEntriesByType('resource').length") == 0  # nothing is loaded
        told = await tab.text()
        for expected in (
            "jagged_sum",
            "✓ confirmed",
            "worst",
            "Holdout",
            "Roofline",
            "How it was found",
            "self-test passed",
        ):
            assert expected in told
        assert "worst workload" in await tab.value(POINT % "scored")
        assert "rejected: correctness" in await tab.value(POINT % "fallen")
        before = await tab.value("document.querySelector('.dot.scored').getAttribute('d').length")
        said, after = await tab.value(FILTER)
        assert "of 10001 programs" in said
        assert 0 < after < before
        await tab.shot("report", height=1500)
        assert tab.complaints == []

        await tab.call("Emulation.setScriptExecutionDisabled", value=True)
        await tab.open(page.as_uri() + "?again")
        await tab.wait_for("location.search && document.querySelector('.way li')")
        assert "What won" in await tab.text()
        assert await tab.value("document.querySelector('.filter').hidden")
        assert await tab.value("document.querySelector('.dot.scored').getBoundingClientRect().width") > 300

    browse(visit)
