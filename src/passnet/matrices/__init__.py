"""What the recurrent matrices are: parameters with a structure, judged against the dense matrix."""

from passnet.matrices.build import build_matrix, check_spec
from passnet.matrices.low_rank import LowRankMatrix
from passnet.matrices.structured import GateMatrix

__all__ = ["GateMatrix", "LowRankMatrix", "build_matrix", "check_spec"]
