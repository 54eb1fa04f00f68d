"""From a trained layer to one with smaller state matrices that does nearly the same."""

from passnet.compression.compress import compress, compression_error

__all__ = ["compress", "compression_error"]
