"""The reviewer's path through the real MLflow UI in a real browser: experiment, run, charts, report, registry."""

from __future__ import annotations

import asyncio
from pathlib import Path

from mlflow import MlflowClient

from kevolve import track
from kevolve.population import Population
from tests.browser import Tab, browse, find_browser
from tests.mlflow_server import MlflowServer
from tests.report.long_run import DEVICE, events


def test_a_reviewer_finds_what_won_how_it_came_about_and_the_champion_to_use(tmp_path: Path) -> None:
    find_browser()
    folder, uri = tmp_path / "long", f"sqlite:///{tmp_path}/server.db"
    with Population(folder) as population:
        for event in events(population, 40):
            population.append(event.kind, event.data)
    assert track.main([str(folder), "--uri", uri]) == 0
    client = MlflowClient(uri, uri)
    experiment = client.get_experiment_by_name("kevolve").experiment_id
    runs = {run.data.tags["kevolve.operator"]: run.info.run_id for run in client.search_runs([experiment])}

    async def visit(tab: Tab) -> None:
        place = f"{server.address}/#/experiments/{experiment}/runs"
        await tab.open(place)
        await tab.wait_for("document.body.innerText.includes('long')")
        await tab.shot("mlflow-experiment")
        await tab.open(f"{place}/{runs['all']}")
        await tab.wait_for("document.body.innerText.includes('believe it?')")
        await tab.wait_for("document.body.innerText.includes('faster, confirmed on fresh data')")
        await tab.shot("mlflow-parent", height=1100)
        await tab.open(f"{place}/{runs['jagged_sum']}")
        await tab.wait_for("document.body.innerText.includes('over the fastest baseline on each workload')")
        await tab.wait_for("document.body.innerText.includes('jagged_sum workloads')")
        await tab.shot("mlflow-child", height=1100)
        await tab.open(f"{place}/{runs['jagged_sum']}/model-metrics")
        await tab.wait_for(
            "document.body.innerText.includes('best_first_look') && document.querySelector('svg.main-svg')"
        )
        await tab.shot("mlflow-charts", height=1100)
        await tab.open(f"{place}/{runs['all']}/artifacts/report.html")
        await tab.wait_for("document.querySelector('iframe')")
        shown = "fetch(document.querySelector('iframe').src).then(answer => answer.text())"
        assert "<title>long: kevolve report</title>" in await tab.value(shown)
        await asyncio.sleep(2)  # what a frame of another origin has drawn cannot be asked
        await tab.shot("mlflow-report", width=1600, height=1100)
        await tab.open(f"{server.address}/#/models/kevolve.jagged_sum.{DEVICE}/versions/1")
        await tab.wait_for("document.body.innerText.includes('kevolve.export long')")
        await tab.wait_for("/@\\s*champion/.test(document.body.innerText)")
        await tab.shot("mlflow-version", height=1100)

    with MlflowServer(tmp_path) as server:
        browse(visit)
