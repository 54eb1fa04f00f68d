"""Values and records of experiments, standard library only."""

from passnet.config.chrono import Chrono
from passnet.config.errors import ConfigurationError
from passnet.config.experiment import Aim, Experiment, PaperResult
from passnet.config.identity import identity
from passnet.config.longer import looks_ahead, why_not_longer
from passnet.config.matrix import (
    BlockDiagonal,
    BlockDiagonalPlusLowRank,
    Dense,
    LowRank,
    LowRankPlusDiagonal,
    MatrixSpec,
)
from passnet.config.metrics import METRICS, Metric, better
from passnet.config.model import Model
from passnet.config.overrides import apply_overrides, differences, settings
from passnet.config.parameters import (
    Counts,
    experiment_parameter_counts,
    model_parameter_count,
    paper_parameter_count,
    parameter_counts,
    printed_count,
)
from passnet.config.plain import from_json, to_json
from passnet.config.tasks import (
    AdditionTask,
    CharacterTask,
    CopyTask,
    FlatMnistTask,
    SequentialMnistTask,
    Task,
)
from passnet.config.training import (
    Adam,
    AdamW,
    Averaging,
    ClipComponents,
    ClipNorm,
    Clipping,
    Constant,
    Cosine,
    HalveOnPlateau,
    Optimiser,
    RmsProp,
    Schedule,
    Selection,
)

__all__ = [
    "METRICS",
    "Adam",
    "AdamW",
    "AdditionTask",
    "Aim",
    "Averaging",
    "BlockDiagonal",
    "BlockDiagonalPlusLowRank",
    "CharacterTask",
    "Chrono",
    "ClipComponents",
    "ClipNorm",
    "Clipping",
    "ConfigurationError",
    "Constant",
    "CopyTask",
    "Cosine",
    "Counts",
    "Dense",
    "Experiment",
    "FlatMnistTask",
    "HalveOnPlateau",
    "LowRank",
    "LowRankPlusDiagonal",
    "MatrixSpec",
    "Metric",
    "Model",
    "Optimiser",
    "PaperResult",
    "RmsProp",
    "Schedule",
    "Selection",
    "SequentialMnistTask",
    "Task",
    "apply_overrides",
    "better",
    "differences",
    "experiment_parameter_counts",
    "from_json",
    "identity",
    "looks_ahead",
    "model_parameter_count",
    "paper_parameter_count",
    "parameter_counts",
    "printed_count",
    "settings",
    "to_json",
    "why_not_longer",
]
