"""The knowledge base for an agent."""

from __future__ import annotations

from kevolve.config import Config
from kevolve.knowledge import Need
from kevolve.propose.llm.retrieval import documents_of


def search_knowledge(query: str, device: str, language: str = "", operator: str = "") -> str:
    """Notes for kernel engineers that fit a question, for a device (its key, such as cpu or nvidia-h200)."""
    found = documents_of(Config()).documents(Need(device, language, operator, (), query))
    return "\n\n".join(f"# {one.name} ({one.because})\n{one.text}" for one in found) or "Nothing is known about that."
