"""Fused CUDA scans, compiled at run time."""

from passnet.ops.cuda.call import Call, describe
from passnet.ops.cuda.scan import gru_backward, gru_forward, lstm_backward, lstm_forward, refuses

__all__ = [
    "Call", "describe", "gru_backward", "gru_forward", "lstm_backward", "lstm_forward", "refuses",
]  # fmt: skip
