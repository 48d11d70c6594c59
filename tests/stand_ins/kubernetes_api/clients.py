"""Clients of the stand-in, with tokens as EKS takes them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache
from pathlib import Path
from unittest.mock import patch

from airflow.providers.amazon.aws.utils.eks_get_token import fetch_access_token_for_cluster
from kubernetes import client as kubernetes

from tests.stand_ins.kubernetes_api.access import Access
from tests.stand_ins.kubernetes_api.api import serving
from tests.stand_ins.kubernetes_api.cluster import Cluster

CLUSTER, KEY, REGION = "batchmark-gpu-sharing", "AKIAIOSFODNN7EXAMPLE", "us-east-1"
GROUPS = {KEY: ["batchmark-airflow"]}
STS = f"https://sts.{REGION}.amazonaws.com/?Action=GetCallerIdentity&Version=2011-06-15"


@cache
def token(cluster_name: str = CLUSTER, key: str = KEY) -> str:
    keys = {"AWS_ACCESS_KEY_ID": key, "AWS_SECRET_ACCESS_KEY": "secret"}
    with patch.dict(os.environ, keys):
        os.environ.pop("AWS_SESSION_TOKEN", None)
        return fetch_access_token_for_cluster(cluster_name, STS, REGION)


@contextmanager
def connected(cluster: Cluster, bearer: str | None = None) -> Iterator[kubernetes.ApiClient]:
    """A client that Airflow's role would have."""
    with serving(cluster, Access(CLUSTER, GROUPS)) as url:
        settings = kubernetes.Configuration()
        settings.host = url
        settings.api_key = {"authorization": f"Bearer {bearer or token()}"}
        with kubernetes.ApiClient(settings) as found:
            yield found


def reaching(url: str, path: Path) -> Callable[[object], AbstractContextManager[str]]:
    """In the place of `kubeconfig`: a file with a token that was made before."""
    settings = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": [{"name": "c", "cluster": {"server": url}}],
        "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
        "current-context": "c",
        "users": [{"name": "u", "user": {"token": token()}}],
    }
    path.write_text(json.dumps(settings))
    return lambda _: nullcontext(str(path))
