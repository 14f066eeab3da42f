"""`python -m kevolve.mcp RUN`: the mailbox of a run as an MCP server on standard input and output.

The run itself is started with proposer=mailbox; several agents may serve one run. Needs the extra `mcp`.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from kevolve.config import Config
from kevolve.errors import UsageError, nearest
from kevolve.mcp.mailbox import Requests

if TYPE_CHECKING:
    from mcp.server import MCPServer

_INSTRUCTIONS = """\
Write compute kernels for a search that judges them. Take a request, write the program it asks for, submit it, read the
verdict, and take the next. A reply is SEARCH/REPLACE blocks or a whole program, as the request says at its end.
"""


def main() -> int:
    """Serve until the client goes away."""
    parser = argparse.ArgumentParser(prog="python -m kevolve.mcp", description=__doc__)
    parser.add_argument("run", help="the run's name")
    parser.add_argument("--runs-dir", default=Config().runs_dir, help="where run folders are (default: %(default)s)")
    arguments = parser.parse_args()
    try:
        server(_folder(Path(arguments.runs_dir), arguments.run)).run("stdio")
    except UsageError as error:
        print(f"kevolve: {error}", file=sys.stderr)
        return 2
    return 0


def server(folder: Path) -> MCPServer[None]:
    """The server for the run in `folder`. UsageError without the SDK."""
    try:
        from mcp.server import MCPServer
    except ImportError as error:
        raise UsageError(
            f"the mcp SDK cannot be imported ({error}). Type python -m pip install 'kevolve[mcp]'."
        ) from None
    from kevolve.mcp import story
    from kevolve.mcp.knowledge import search_knowledge

    requests = Requests(folder)
    made: MCPServer[None] = MCPServer("kevolve", instructions=_INSTRUCTIONS)

    @made.tool()
    def take_request(request: str = "") -> str:
        """The next request that nobody has taken, or the one that is named, in full."""
        return requests.take(request) or "There is no open request now. Ask again in a while."

    @made.tool()
    def open_requests() -> list[str]:
        """The names of all requests without an answer."""
        return requests.open()

    @made.tool()
    def submit_program(request: str, reply: str) -> str:
        """Answer a request: an `Idea:` line, then SEARCH/REPLACE blocks or a whole program in a fence; or skip."""
        requests.submit(request, reply)
        return "Submitted. Read the verdict in a while."

    @made.tool()
    def read_verdict(request: str) -> str:
        """What came of an answer: not judged yet, a problem with the reply, or the judge's verdict."""
        return requests.verdict(request)

    @made.tool()
    def best_programs() -> str:
        """The best programs of the run so far, by operator and device."""
        return story.best_of(folder)

    @made.tool()
    def program_story(program: str) -> str:
        """A program's source, its verdict, its ancestors and its children, by its id."""
        return story.story_of(folder, program)

    made.tool()(search_knowledge)
    return made


def _folder(runs: Path, name: str) -> Path:
    here = sorted(file.parent.name for file in runs.glob("*/events.jsonl"))
    if name not in here:
        raise UsageError(f"{runs}/{name} is not a run.{nearest(name, here)} Runs here: {', '.join(here) or 'none'}.")
    return runs / name


if __name__ == "__main__":
    sys.exit(main())
