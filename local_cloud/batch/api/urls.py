"""Batch's routes, which moto looks for in a module `urls` next to the backend's `models`."""

from moto.batch import urls

from local_cloud.batch.api.responses import JobsBatchResponse, paths

url_bases = urls.url_bases
tags = [path for path in urls.url_paths if "/tags/" in path]
url_paths = dict.fromkeys([*paths(), *tags], JobsBatchResponse.dispatch)
