"""What several folders of tests share: which may run beside others, and a judge for the corpora."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.corpora import Bench

# These time no program, so `make test` runs several of them side by side. The rest has the machine for itself.
PARALLEL = ("languages", "operators", "propose", "search", "test_tracking.py")
ALONE = ("test_cluster.py", "test_llm_kernels.py", "test_llm_plugin.py", "test_local_model.py")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        first = item.path.relative_to(Path(__file__).parent).parts[0]
        if first in PARALLEL and item.path.name not in ALONE:
            item.add_marker("parallel")


@pytest.fixture(scope="session")
def corpora(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The judge, with every program that was asked for built: building beside a measurement would disturb it."""
    from kevolve.devices.cpu import Cpu
    from tests.corpora import Bench

    bench = Bench(Cpu())
    chosen = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    bench.build([case for case in chosen if case is not None and case.program.language in Cpu.languages])
    yield bench
    bench.close()
