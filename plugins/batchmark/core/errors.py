"""The errors of the Airflow side."""


class BatchmarkError(Exception):
    """Base of all errors here; the message states the value seen and the fix."""


class ConfigError(BatchmarkError):
    """What Terraform published is missing or can't be used."""


class PlanError(BatchmarkError):
    """A run that was asked for can't be planned."""


class BudgetError(PlanError):
    """A run may cost more than it is allowed to."""


class CollectError(BatchmarkError):
    """A job left no usable result."""


class ComparisonError(BatchmarkError):
    """The results given can't be compared."""


class NoiseError(BatchmarkError):
    """Noise can't be told from these jobs, or a stored table can't be read."""


class PriceError(BatchmarkError):
    """Prices can't be had or used."""


class HistoryError(BatchmarkError):
    """A foreign result can't be imported, or the history can't be exported."""


class DiagnosisError(BatchmarkError):
    """A question of a diagnosis can't be asked."""


class AlertError(BatchmarkError):
    """An alert can't be read, changed or sent, or the settings of alerts can't be used."""


class TerraformError(BatchmarkError):
    """Terraform is missing, too old, or ended with an error."""
