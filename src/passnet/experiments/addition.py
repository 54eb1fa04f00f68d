"""The addition task of the paper: one model, T = 750."""

from __future__ import annotations

from passnet.config.experiment import Experiment, PaperResult
from passnet.config.matrix import LowRank
from passnet.config.model import Model
from passnet.config.tasks import AdditionTask
from passnet.config.training import ClipComponents, RmsProp, Selection

PRESETS = (
    Experiment(
        name="addition-750/lr-gru-128-24",
        task=AdditionTask(steps=750),
        model=Model(
            size=128,
            matrix=LowRank(24),
            reset="before",
            carry_bias=4.0,
            learn_initial_state=True,
        ),
        optimiser=RmsProp(1e-3),
        clipping=ClipComponents(1.0),
        batch_size=20,
        updates=14_500,
        evaluate_every=500,
        selection=Selection("mse_paper_distribution", "min", keep="last"),
        protocol="paper",
        paper=PaperResult(
            where="section 3, addition task",
            metric="mse_paper_distribution",
            value=0.003,
            updates=14_500,
            figure="figure 2",
            curve="addition_750_lr_gru_128_24",
        ),
        notes=(
            "The paper's 'about 6140' recurrent parameters are those of one of the three matrices "
            "(6144); all three hold 18432.",
            "The paper marks one number in each half, the author's test set both anywhere: each is "
            "evaluated under its own name.",
            "The author's curve ends at 0.00273, on his own test set: compare it with the score of "
            "sequences marked anywhere. What is tested is the model after the last update, not the "
            "best on validation.",
        ),
    ),
)
