"""Reads the DAGs' settings through Airflow's secrets backends.

Reading Terraform's configuration raises a ConfigError if it is from another release, or if it is
required but missing. The user's alert settings have defaults; if invalid, they raise an AlertError.
"""

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
    return config.parse_config(_read(config.VARIABLE))


def load_cluster() -> cluster.Cluster:
    """Read the configuration published by the EKS stack."""
    return cluster.parse_cluster(_read(cluster.VARIABLE))


def load_cluster_if_any() -> cluster.Cluster | None:
    """Read the configuration published by the EKS stack, or return None if there is none."""
    text = _read(cluster.VARIABLE)
    return cluster.parse_cluster(text) if text else None


def load_multi_node() -> multi_node.MultiNode:
    """Read the configuration published by the multi-node stack."""
    return multi_node.parse_multi_node(_read(multi_node.VARIABLE))


def load_multi_node_if_any() -> multi_node.MultiNode | None:
    """Read the configuration published by the multi-node stack, or return None if there is none."""
    text = _read(multi_node.VARIABLE)
    return multi_node.parse_multi_node(text) if text else None


def load_own_jobs() -> own_jobs.OwnJobs:
    return own_jobs.parse_own_jobs(_read(own_jobs.VARIABLE))


def config_of(plan: RunPlan, found: config.Config) -> config.Config:
    """Return the configuration, adding any other targets that a plan's jobs run on."""
    if plan.sides:
        return found.with_targets(plan.sides)
    if any(job.scaling for job in plan.jobs):
        return load_multi_node().joined_to(found)
    return found


def load_alert_settings() -> AlertSettings:
    from batchmark.changes.alerts import settings

    return settings.parse_settings(_read(settings.VARIABLE))


def load_detector_settings() -> DetectorSettings:
    from batchmark.changes.detection import DetectorSettings

    return DetectorSettings(false_alerts_a_month=load_alert_settings().false_alerts_a_month)


def _read(variable: str) -> str | None:
    text: str | None = Variable.get(variable, default=None)
    return text
