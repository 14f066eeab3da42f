"""Configuration: from conf/ and the command line to a checked `Config`, without importing a heavy package.

`load_config` finds every mistake before it complains, and complains once (`UsageError`).
"""

from kevolve.configuration.load import load_config

__all__ = ["load_config"]
