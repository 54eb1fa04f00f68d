"""Trained models as programs that run without PyTorch."""

from passnet.export.to_onnx import export_onnx

__all__ = ["export_onnx"]
