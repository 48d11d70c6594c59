"""The faults, one file for each kind of culprit."""

from tests.faults.catalogue import alerts, aws, components, jobs, layers, users
from tests.faults.fault import Fault

FAULTS: tuple[Fault, ...] = (
    *jobs.FAULTS,
    *users.FAULTS,
    *aws.FAULTS,
    *alerts.FAULTS,
    *components.FAULTS,
    *layers.FAULTS,
)
