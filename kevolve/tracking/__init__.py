"""Tracking: a run as MLflow shows it. Importing this imports no MLflow."""

from kevolve.tracking.listener import Tracking

__all__ = ["Tracking"]
