"""Fused CUDA kernels, compiled at run time: the scans, and the norm and gate of Highway layers."""

from passnet.ops.cuda.call import Call

__all__ = ["Call"]
