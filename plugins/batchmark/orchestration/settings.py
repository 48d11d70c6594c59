"""Settings that DAGs read through Airflow's secrets backends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from airflow.sdk import Variable

from batchmark.core import config, own_jobs
from batchmark.core.clusters import cluster, multi_node

if TYPE_CHECKING:
    from batchmark.changes.alerts.settings import AlertSettings
    from batchmark.changes.detection import DetectorSettings
    from batchmark.core.run import RunPlan


def load_config() -> config.Config:
    """Return what Terraform published.

    Raises:
        ConfigError: nothing is published, or it is of another release.
    """
    return config.parse_config(Variable.get(config.VARIABLE, default=None))


def load_cluster() -> cluster.Cluster:
    """Return what the EKS stack published.

    Raises:
        ConfigError: nothing is published, or it is of another release.
    """
    return cluster.parse_cluster(Variable.get(cluster.VARIABLE, default=None))


def load_cluster_if_any() -> cluster.Cluster | None:
    """Return what the EKS stack published; None without that stack."""
    text = Variable.get(cluster.VARIABLE, default=None)
    return cluster.parse_cluster(text) if text else None


def load_multi_node() -> multi_node.MultiNode:
    """Return what the multi-node stack published.

    Raises:
        ConfigError: nothing is published, or it is of another release.
    """
    return multi_node.parse_multi_node(Variable.get(multi_node.VARIABLE, default=None))


def load_multi_node_if_any() -> multi_node.MultiNode | None:
    """Return what the multi-node stack published; None without that stack."""
    text = Variable.get(multi_node.VARIABLE, default=None)
    return multi_node.parse_multi_node(text) if text else None


def load_own_jobs() -> own_jobs.OwnJobs:
    """Return what Terraform published of own jobs.

    Raises:
        ConfigError: nothing is published, or it is of another release.
    """
    return own_jobs.parse_own_jobs(Variable.get(own_jobs.VARIABLE, default=None))


def config_of(plan: RunPlan, found: config.Config) -> config.Config:
    """The configuration, with the targets that a plan's jobs run on beside it."""
    if plan.sides:
        return found.with_targets(plan.sides)
    if any(job.scaling for job in plan.jobs):
        return load_multi_node().joined_to(found)
    return found


def load_alert_settings() -> AlertSettings:
    """Return the user's alert settings, or the defaults if there are none.

    Raises:
        AlertError: they are invalid.
    """
    from batchmark.changes.alerts import settings

    return settings.parse_settings(Variable.get(settings.VARIABLE, default=None))


def load_detector_settings() -> DetectorSettings:
    """Return what the user's alert settings say of the detector.

    Raises:
        AlertError: they are invalid.
    """
    from batchmark.changes.detection import DetectorSettings

    return DetectorSettings(false_alerts_a_month=load_alert_settings().false_alerts_a_month)
