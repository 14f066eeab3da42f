"""`python -m kevolve.template > my_op.py`: a working file with an operator of your own, to start from."""

from __future__ import annotations

import sys
from pathlib import Path

TEMPLATE = Path(__file__).parent / "operators" / "custom" / "my_op.py.txt"


def main() -> int:
    """Print the template."""
    print(TEMPLATE.read_text(), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
