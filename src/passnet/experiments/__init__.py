"""The experiments of the paper, and ours, as values; standard library only."""

from passnet.experiments.discrepancies import DISCREPANCIES, Discrepancy
from passnet.experiments.registry import UnknownPreset, get, listing, names

__all__ = ["DISCREPANCIES", "Discrepancy", "UnknownPreset", "get", "listing", "names"]
