"""Fused CUDA scans, compiled at run time."""

from passnet.ops.cuda.call import Call

__all__ = ["Call"]
