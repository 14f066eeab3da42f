"""`python -m kevolve.devices`: the devices of this machine, one a row. Exit status 0 if there is one, 1 if not."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from rich.table import Table
from rich.text import Text

from kevolve.devices.listing import rows
from kevolve.screen import console


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; returns the exit status."""
    given = sys.argv[1:] if arguments is None else list(arguments)
    if given:
        print(__doc__, file=sys.stdout if given[0] in ("--help", "-h") else sys.stderr)
        return 0 if given[0] in ("--help", "-h") else 2
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("device", "key", "languages", "toolchain", "measured rates"):
        table.add_column(heading, overflow="fold")
    found = list(rows())
    for row in found:
        if not row.why_absent:
            table.add_row(row.name, row.key, ", ".join(row.languages), row.toolchain, row.rates)
    shown = console()
    if table.row_count:
        shown.print(table)
    for row in found:
        if row.why_absent:
            shown.print(Text(f"{row.name}: not here. {row.why_absent}"), soft_wrap=True)
    return 0 if table.row_count else 1


if __name__ == "__main__":
    sys.exit(main())
