"""Listeners: whoever wants to know what happens in a run, and has no say in it.

The screen and the MLflow tracking are listeners. The driver tells them every event after it is on disk. A listener
that raises is dropped with one warning: showing progress must never cost progress.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from kevolve.events import Event
    from kevolve.summary import Summary

log = logging.getLogger(__name__)


class Listener(Protocol):
    """Told of events, never asked. Subclass it to inherit the methods that do nothing."""

    def recalled(self, events: Iterable[Event]) -> None:
        """The earlier events of a run that is resumed, before the first new one. They were heard in their session."""
        return

    def heard(self, event: Event) -> None:
        """One new event, already stored. Must be quick: on an exclusive device a timing may be about to start."""

    def flush(self) -> None:
        """A quiet moment, at most every 20 seconds or so: write out what `heard` has gathered."""
        return

    def closed(self, summary: Summary) -> None:
        """The run has ended, for whatever reason; nothing follows."""
        return


class Audience:
    """All listeners as one, each on its own risk."""

    def __init__(self, listeners: Sequence[Listener]) -> None:
        self._listeners = list(listeners)

    def recalled(self, events: Iterable[Event]) -> None:
        past = list(events) if self._listeners else []
        self._tell(lambda listener: listener.recalled(past))

    def heard(self, event: Event) -> None:
        self._tell(lambda listener: listener.heard(event))

    def flush(self) -> None:
        self._tell(lambda listener: listener.flush())

    def closed(self, summary: Summary) -> None:
        self._tell(lambda listener: listener.closed(summary))

    def _tell(self, message: Callable[[Listener], None]) -> None:
        for listener in list(self._listeners):
            try:
                message(listener)
            except Exception as error:
                self._listeners.remove(listener)
                log.warning("%s stopped listening: %s: %s", type(listener).__name__, type(error).__name__, error)
