"""Batch's routes: moto looks for them in a module `urls` beside a backend's `models`."""

from moto.batch import urls

from local_cloud.batch.api.responses import JobsBatchResponse

url_bases = urls.url_bases
url_paths = dict.fromkeys(urls.url_paths, JobsBatchResponse.dispatch)
