"""The faults, one file for each kind of culprit."""

from tests.faults.catalogue import aws, components, jobs, layers, users
from tests.faults.outcome import Fault

FAULTS: tuple[Fault, ...] = (
    *jobs.FAULTS,
    *users.FAULTS,
    *aws.FAULTS,
    *components.FAULTS,
    *layers.FAULTS,
)
