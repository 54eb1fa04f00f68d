"""What the recurrent matrices are: parameters with a structure, judged against the dense matrix."""

from passnet.matrices.block_diagonal import BlockDiagonalMatrix
from passnet.matrices.build import MATRICES, build_matrix, check_spec
from passnet.matrices.dense import DenseMatrix
from passnet.matrices.low_rank import LowRankMatrix
from passnet.matrices.structured import GateMatrix, StructuredMatrix

__all__ = [
    "MATRICES",
    "BlockDiagonalMatrix",
    "DenseMatrix",
    "GateMatrix",
    "LowRankMatrix",
    "StructuredMatrix",
    "build_matrix",
    "check_spec",
]
