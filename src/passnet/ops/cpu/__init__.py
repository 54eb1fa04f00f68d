"""Fused CPU scans in C, compiled when the package is installed."""

from passnet.ops.cpu.library import Library, installed, load

__all__ = ["Library", "installed", "load"]
