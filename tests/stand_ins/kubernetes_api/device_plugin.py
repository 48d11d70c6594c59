"""How many GPUs NVIDIA's device plugin offers, read of its DaemonSet and ConfigMap as it does."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import yaml

GPU = "nvidia.com/gpu"
Object = dict[str, Any]


class ConfigError(Exception):
    """The plugin ends with this."""


class Offer(NamedTuple):
    devices: int
    is_shared: bool = False
    refuses_more_than_one: bool = False

    def refusal(self, wanted: int) -> str | None:
        """What Allocate answers to a request of this size, if it refuses it."""
        if wanted > 1 and self.is_shared and self.refuses_more_than_one:
            return (
                f"Allocate failed due to rpc error: code = Unknown desc = request for '{GPU}: "
                f"{wanted}' too large: maximum request size for shared resources is 1, which is "
                "unexpected"
            )
        return None


def offer(daemon_set: Object, config_maps: Sequence[Object], gpus: int) -> Offer:
    """What a node with so many GPUs is told to offer."""
    spec = daemon_set["spec"]["template"]["spec"]
    (container,) = spec["containers"]
    variables = {one["name"]: one.get("value", "") for one in container.get("env", ())}
    path = variables.get("CONFIG_FILE")
    return Offer(gpus) if path is None else _configured(_file(path, spec, config_maps), gpus)


def _file(path: str, spec: Object, config_maps: Sequence[Object]) -> str:
    """The file as the container sees it."""
    (container,) = spec["containers"]
    for mount in container["volumeMounts"]:
        folder, _, name = path.rpartition("/")
        if folder != mount["mountPath"]:
            continue
        volume = next(one for one in spec["volumes"] if one["name"] == mount["name"])
        for found in config_maps:
            if found["metadata"]["name"] == volume.get("configMap", {}).get("name"):
                if name not in found["data"]:
                    raise ConfigError(f"open {path}: no such file or directory")
                return str(found["data"][name])
    raise ConfigError(f"open {path}: no such file or directory")


def _configured(text: str, gpus: int) -> Offer:
    config = yaml.safe_load(text)
    _known(config, "version", "flags", "sharing")
    if config.get("version") != "v1":
        raise ConfigError(f"unknown version: {config.get('version')}")
    flags = config.get("flags", {})
    _known(flags, "migStrategy")
    if flags.get("migStrategy", "none") not in {"none", "single", "mixed"}:
        raise ConfigError(f"unknown MIG strategy: {flags['migStrategy']}")
    sharing = config.get("sharing", {})
    _known(sharing, "timeSlicing")
    slicing = sharing.get("timeSlicing")
    if slicing is None:
        return Offer(gpus)
    _known(slicing, "failRequestsGreaterThanOne", "resources")
    for resource in slicing["resources"]:
        _known(resource, "name", "replicas")
        if resource["replicas"] < 2:
            raise ConfigError(f"number of replicas must be >= 2: {resource['replicas']}")
        if resource["name"] == GPU:
            return Offer(
                gpus * resource["replicas"],
                is_shared=True,
                refuses_more_than_one=bool(slicing.get("failRequestsGreaterThanOne")),
            )
    return Offer(gpus)


def _known(found: Object, *names: str) -> None:
    if unknown := set(found) - set(names):
        raise ConfigError(f"unknown field {min(unknown)!r}")
