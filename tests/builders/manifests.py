"""The manifests of the EKS stack, as Terraform renders them with its defaults."""

from string import Template

import yaml

from tests.paths import ROOT

FOLDER = ROOT / "terraform" / "stacks" / "eks_gpu_sharing" / "manifests"
FILES = ("namespace", "access", "device_plugin")
DEFAULTS = {
    "namespace": "gpu-demo",
    "pod_account": "benchmark",
    "airflow_group": "batchmark-airflow",
    "image": "nvcr.io/nvidia/k8s-device-plugin:v0.20.0@sha256:"
    "a61ba9fd8efb82f3a79f877f7580e02c1e8e7593f62473644bc9c79e315c3312",
    "replicas_per_gpu": 10,
}


def rendered(**inputs):
    """All of them as one text."""
    texts = ((FOLDER / f"{name}.yaml.tftpl").read_text() for name in FILES)
    return "---\n".join(Template(text).substitute(DEFAULTS | inputs) for text in texts)


def manifests(**inputs):
    return list(yaml.safe_load_all(rendered(**inputs)))
