"""DNN analyzer's names over this engine: `from rasp.compat.dnn_analyzer import model_analysis`."""

from __future__ import annotations

from .model_analysis import ModelAnalyse

__all__ = ["ModelAnalyse"]
