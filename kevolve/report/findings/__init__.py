"""Findings: what the events of a run come to, with the way that led there and what speaks against believing it."""
