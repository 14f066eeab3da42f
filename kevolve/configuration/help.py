"""`--help` of `kevolve run`, generated from the schema and the files of conf/."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from kevolve.configuration.schema import Key, keys, keys_of, sections, shown
from kevolve.configuration.tree import GROUPS, options

USAGE = """\
kevolve run: make the operators of an experiment faster on the devices of this machine.

  python -m kevolve.run +experiment=NAME [group=option ...] [key=value ...]

  python -m kevolve.run operator_file=my_op.py     an operator of your own; python -m kevolve.template prints one

  --cfg             print the configuration that this command would use, and stop
  --config-dir DIR  a conf tree of your own beside conf/, laid out like it
  --help            this page

Go on with a run that was stopped:  python -m kevolve.run resume=true name=RUN [budget.minutes=M]
Exit status: 0 finished, 2 wrong command or configuration, 3 nothing better found (with require=better),
4 the machine's faults stopped the run, 130 interrupted; whatever was judged is saved in each case.
"""


def help_text(searched: Sequence[Path]) -> str:
    """The whole page."""
    lines = [USAGE, "Groups (conf/<group>/<option>.yaml):"]
    for group in GROUPS:
        lines.append(f"  {'+' * (group == 'experiment') + group:<14}{', '.join(options(group, searched))}")
    lines += ["", "Keys (default):"]
    for section in ("", *sections()):
        lines += [_line(keys()[name]) for name in keys_of(section)]
    return "\n".join(lines)


def _line(key: Key) -> str:
    choices = [choice for choice in key.limits.get("choices", ()) if choice != key.default]
    also = f" (or {', '.join(choices)})" if choices and key.default is not None else ""
    return f"  {key.name}={shown(key.default)}{also}\n      {key.meaning}"
