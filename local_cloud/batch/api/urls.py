"""moto finds a backend's addresses in the `urls` module beside its `models` module."""

from moto.batch import urls

from local_cloud.batch.responses import JobsBatchResponse

url_bases = urls.url_bases
url_paths = dict.fromkeys(urls.url_paths, JobsBatchResponse.dispatch)
