"""The address of MLflow's store: can it be reached, and how may it be shown?

MLflow retries a database that it cannot open for minutes, so that is found out here first, in seconds.
"""

from __future__ import annotations

import os
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from urllib.parse import urlsplit, urlunsplit

PORTS = {"http": 80, "https": 443, "postgresql": 5432, "mysql": 3306, "mssql": 1433}


def check_address(uri: str, seconds: float) -> None:
    """Raises OSError, sqlite3.Error or ValueError if the store at `uri` cannot be written, within about `seconds`."""
    if uri.startswith("sqlite:"):
        _check_sqlite(Path(uri.removeprefix("sqlite:///")), seconds)
        return
    parts = urlsplit(uri)
    port = parts.port or PORTS.get(parts.scheme.partition("+")[0])
    if port is None or not parts.hostname:
        raise ValueError("not the address of a server or a database, such as sqlite:///mlflow.db")
    socket.create_connection((parts.hostname, port), seconds).close()


def redact(uri: str) -> str:
    """The address without user, password and query, which may hold a token."""
    parts = urlsplit(uri)
    if not parts.netloc:
        return uri.partition("?")[0]
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))


def _check_sqlite(path: Path, seconds: float) -> None:
    if not path.parent.is_dir() or not os.access(path.parent, os.W_OK):
        raise OSError(f"{path.parent.resolve()} is no folder that can be written")
    if not path.exists():
        return
    with closing(sqlite3.connect(path, timeout=seconds)) as database:
        database.execute("BEGIN IMMEDIATE")
        database.rollback()
