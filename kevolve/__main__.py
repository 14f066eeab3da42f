"""The console script: `kevolve VERB ...` is `python -m kevolve.VERB ...`."""

from __future__ import annotations

import runpy
import sys

from kevolve.errors import nearest

VERBS = {
    "run": "make the operators of an experiment faster: the main job",
    "template": "a file with an operator of your own, to start from",
    "judge": "one program's verdict",
    "report": "what a run found, how sure that is and how it came about: a page, text or data; two runs compared",
    "track": "send a run to MLflow that could not be written there, or not all of it",
    "champions": "the best programs by operator and device, and whether a run has a better one",
    "knowledge": "the documents a proposer would be given, and why; what runs have learned",
    "export": "a champion as a package of its own, to install anywhere",
    "confirm": "are champions still right and still faster on this machine? for your CI",
    "devices": "the devices of this machine: key, languages, toolchain, measured rates",
    "mcp": "the mailbox of a run (proposer=mailbox) as tools for a coding agent",
    "doctor": "what this machine has and lacks, and what to type to mend it",
}


def main() -> int:
    """Hand over to the verb's own module, which reads the rest of the command line and sets the exit status."""
    verb = sys.argv[1] if len(sys.argv) > 1 else "--help"
    if verb in ("--help", "-h"):
        print("kevolve VERB ...\n\n" + "\n".join(f"  {name:<11}{meaning}" for name, meaning in VERBS.items()))
        print("\nkevolve VERB --help tells more.")
        return 0
    if verb not in VERBS:
        print(f"kevolve: there is no {verb}.{nearest(verb, VERBS)} Verbs: {', '.join(VERBS)}.", file=sys.stderr)
        return 2
    sys.argv = [f"kevolve {verb}", *sys.argv[2:]]
    runpy.run_module(f"kevolve.{verb}", run_name="__main__", alter_sys=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
