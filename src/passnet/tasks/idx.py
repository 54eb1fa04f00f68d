"""The IDX format of MNIST's files."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from passnet.tasks.data import DataError


def parse_idx(content: bytes, *, name: str, rank: int) -> Tensor:
    """The unsigned bytes of an unpacked IDX file with `rank` dimensions, as a tensor.

    The header is 0, 0, a type (8: unsigned byte), the rank, then each size as a big-endian int32.
    """
    magic = bytes((0, 0, 8, rank))
    if content[:4] != magic:
        raise DataError(
            f"{name} begins with {content[:4].hex() or 'nothing'} instead of {magic.hex()}: it is "
            f"not an IDX file of unsigned bytes with {rank} dimension{'s' * (rank > 1)}"
        )
    start = 4 + 4 * rank
    if len(content) < start:
        raise DataError(f"{name} ends inside its header: the file is truncated")
    shape = [int.from_bytes(content[at : at + 4], "big") for at in range(4, start, 4)]
    if len(content) - start != math.prod(shape):
        raise DataError(
            f"{name} holds {len(content) - start} bytes of data but its header says "
            f"{' x '.join(map(str, shape))} = {math.prod(shape)}: the file is truncated or damaged"
        )
    if math.prod(shape) == 0:
        return torch.empty(shape, dtype=torch.uint8)
    return torch.frombuffer(bytearray(content[start:]), dtype=torch.uint8).view(shape)
