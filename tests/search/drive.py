"""A driver in its own process, on its own Ray, to be killed: `drive.py RUNS_DIR PAUSE RESUME`. Prints how it ended."""

import sys
from pathlib import Path

from search_stubs import StubLease, StubProposer, config

from kevolve.errors import FaultsStopped
from kevolve.search.evolution import evolve

if __name__ == "__main__":
    wanted = config(Path(sys.argv[1]), evaluations=25, resume=sys.argv[3] == "True")
    wanted.cluster.cpus = 2
    try:
        summary = evolve(wanted, leases=[StubLease(pause=float(sys.argv[2]))], proposer=StubProposer())
    except FaultsStopped as error:
        print(error)
        sys.exit(4)
    print(summary.stopped)
