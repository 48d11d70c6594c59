"""Batch's routes. moto looks for them in a module named `urls` next to the backend's `models`."""

from moto.batch import urls

from local_cloud.batch.api.responses import JobsBatchResponse, paths

url_bases = urls.url_bases
tags = [path for path in urls.url_paths if "/tags/" in path]
url_paths = dict.fromkeys([*paths(), *tags], JobsBatchResponse.dispatch)
