"""FSx's routes. moto looks for them in a module named `urls` next to the backend's `models`."""

from moto.fsx import urls

from local_cloud.file_systems.responses import FileSystemsResponse

url_bases = urls.url_bases
url_paths = dict.fromkeys(urls.url_paths, FileSystemsResponse.dispatch)
