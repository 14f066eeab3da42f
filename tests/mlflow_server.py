"""A real MLflow server of our own, to be killed."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path
from typing import Self

import pytest


class MlflowServer:
    """Inside `with` it answers at `address`, a loopback port."""

    def __init__(self, folder: Path, port: int | None = None) -> None:
        if port is None:
            with socket.create_server(("127.0.0.1", 0)) as free:
                port = free.getsockname()[1]
        self.address = f"http://127.0.0.1:{port}"
        store = ["--backend-store-uri", f"sqlite:///{folder}/server.db", "--artifacts-destination", f"{folder}/files"]
        where = ["--workers", "1", "--host", "127.0.0.1", "--port", str(port)]
        self.process = subprocess.Popen(
            [sys.executable, "-m", "mlflow", "server", *where, *store],
            cwd=folder,
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def kill(self) -> None:
        """The server and its workers, which are a session of their own."""
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()

    def __enter__(self) -> Self:
        deadline = time.monotonic() + 90
        while time.monotonic() < deadline and self.process.poll() is None:
            try:
                with urllib.request.urlopen(f"{self.address}/health", timeout=1):
                    return self
            except OSError:
                time.sleep(0.1)
        self.kill()
        pytest.fail("the MLflow server did not start")

    def __exit__(self, *_: object) -> None:
        self.kill()
