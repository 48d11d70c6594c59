"""The learning rate over a training's epochs."""

from __future__ import annotations

from batchmark_job.result.scaling import TrainingSettings

POWER = 2


def learning_rate(settings: TrainingSettings, images_seen: int) -> float:
    """It rises linearly over the warm-up epochs, then falls as a square, to 0 after the last one.

    Source: Goyal et al., https://arxiv.org/abs/1706.02677, section 2.2, and the "poly" policy of
    Liu et al., https://arxiv.org/abs/1506.04579.

    Args:
        images_seen: by all ranks, those of the step included, so that the first step counts.
    """
    epoch = images_seen / settings.images_per_epoch
    if epoch < settings.warmup_epochs:
        return settings.learning_rate * epoch / settings.warmup_epochs
    if epoch >= settings.epochs:
        return 0.0
    left = (settings.epochs - epoch) / (settings.epochs - settings.warmup_epochs)
    return float(settings.learning_rate * left**POWER)
