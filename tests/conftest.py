"""What several folders of tests share: a judge for the corpora, made when the first program asks for it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.corpora import Bench


@pytest.fixture(scope="session")
def corpora(request: pytest.FixtureRequest) -> Iterator[Bench]:
    """The judge, with every program that was asked for built: building beside a measurement would disturb it."""
    from kevolve.devices.cpu import Cpu
    from tests.corpora import Bench

    bench = Bench(Cpu())
    chosen = [item.callspec.params.get("case") for item in request.session.items if hasattr(item, "callspec")]
    bench.build([case for case in chosen if case is not None])
    yield bench
    bench.close()
