"""A stand-in for the job image, where jobs run as processes and nothing is ever pulled."""

from __future__ import annotations

import json
from typing import Any

MEDIA_TYPE = "application/vnd.docker.distribution.manifest.v2+json"


def publish_stand_in(ecr: Any, image: str) -> None:
    """Give the repository an image of this tag without layers, as `make image` would a real one.

    One that is there stays: a tag never moves.
    """
    repository, _, tag = image.rpartition("/")[2].partition(":")
    there = ecr.list_images(repositoryName=repository, filter={"tagStatus": "TAGGED"})["imageIds"]
    if tag in {one["imageTag"] for one in there}:
        return
    manifest = {"schemaVersion": 2, "mediaType": MEDIA_TYPE, "config": {}, "layers": []}
    ecr.put_image(repositoryName=repository, imageTag=tag, imageManifest=json.dumps(manifest))
