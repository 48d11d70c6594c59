"""A stand-in for the job image in the local cloud's ECR, from which nothing is pulled."""

from __future__ import annotations

import json
from typing import Any

MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def publish_stand_in(ecr: Any, image: str) -> None:
    """Push an image without layers under this tag, as `make image` pushes a real one.

    An image that has the tag stays, because tags are immutable.
    """
    repository, _, tag = image.rpartition("/")[2].partition(":")
    listed = ecr.list_images(repositoryName=repository, filter={"tagStatus": "TAGGED"})
    if tag in {found["imageTag"] for found in listed["imageIds"]}:
        return
    manifest = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": {}, "layers": []}
    ecr.put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps(manifest))
