"""Checks whether hosts boot the AMI that ECS currently recommends for them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from batchmark.aws.batch_targets import BatchEnvironment, published_environments
from batchmark.checks.records import Check

NAME = "AMI"
# The public parameters from which Terraform takes AMIs (terraform/modules/batch/hosts.tf), by
# Batch's image type. They also list AMIs by id: undocumented, but in moto's copy of September 2026.
_ALL = "/aws/service/ecs/optimized-ami/amazon-linux-2023/"
_PARAMETERS = {"ECS_AL2023": _ALL, "ECS_AL2023_NVIDIA": f"{_ALL}gpu/"}
_DAY = re.compile(r"\.(\d{4})(\d\d)(\d\d)-")  # in an AMI's name
# The last day whose AMIs lack /run/mps-ecs: the first ones with a daemon have it elsewhere
# (scripts/al2023/gpu/nvidia-mps.service in github.com/aws/amazon-ecs-ami).
_WITHOUT_MPS = "2026-08-20"


def check_amis(environment: BatchEnvironment) -> Iterator[Check]:
    """Check each AMI that Terraform chose; user-supplied and foreign AMIs are skipped.

    The check fails if jobs share a GPU through MPS and the AMI lacks the MPS daemon's folder,
    because the jobs would measure nothing. Batch's own `batchImageStatus` can't be used: it covers
    only AMIs that Batch chose.
    """
    for (image_type, used), targets in _chosen_by_terraform(environment).items():
        recommended, own = (_PARAMETERS[image_type] + name for name in ("recommended", used))
        found = environment.client("ssm").get_parameters(Names=[recommended, own])["Parameters"]
        images = {each["Name"]: json.loads(each["Value"]) for each in found}
        check = Check(name=NAME, target=", ".join(targets), status="ok", seen="")
        if recommended not in images:
            yield check.judged("not checked", f"There is no SSM parameter {recommended}.")
            continue
        newest = images[recommended]["image_id"]
        hosts = f"Hosts boot {_dated(used, images.get(own))}"
        if used == newest:
            yield check.judged("ok", f"{hosts}, the one ECS recommends.")
            continue
        seen = f"{hosts}; ECS recommends {_dated(newest, images[recommended])}."
        nodes = all(environment.targets[name].most_nodes for name in targets)
        where = " in terraform/stacks/multi_node" if nodes else ""
        remedy = (
            f"Set ami_release to any other value and run `terraform apply`{where} "
            "between two runs; the results will then show the new AMI as a change."
        )
        yield check.judged("warn", seen, remedy)
        by_mps = [name for name in targets if environment.targets[name].sharing == "mps"]
        if by_mps and "" < _day(images.get(own)) <= _WITHOUT_MPS:
            seen = f"{hosts}. AMIs up to {_WITHOUT_MPS} lack the MPS folder /run/mps-ecs."
            check = check.model_copy(update={"target": ", ".join(by_mps)})
            yield check.judged("fail", seen, remedy)


def _chosen_by_terraform(environment: BatchEnvironment) -> dict[tuple[str, str], list[str]]:
    """Return the targets that boot each AMI chosen by Terraform, by image type and AMI."""
    found: dict[tuple[str, str], dict[str, None]] = {}
    for name, target in environment.targets.items():
        if environment.foreign or target.given_ami:
            continue
        for published in published_environments(target).values():
            described = environment.compute_environments.get(published, {})
            for image in described.get("computeResources", {}).get("ec2Configuration", ()):
                key = (image["imageType"], image.get("imageIdOverride"))
                if key[0] in _PARAMETERS and key[1]:
                    found.setdefault(key, {})[name] = None
    return {key: list(targets) for key, targets in found.items()}


def _dated(ami: str, image: dict[str, str] | None) -> str:
    day = _day(image)
    return f"{ami} from {day}" if day else ami


def _day(image: dict[str, str] | None) -> str:
    """Return the date in an AMI's name, or an empty string if it is unknown."""
    day = _DAY.search(image["image_name"]) if image else None
    return "-".join(day.groups()) if day else ""
