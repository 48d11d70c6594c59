"""FSx's routes, which moto looks for in a module `urls` next to the backend's `models`."""

from moto.fsx import urls

from local_cloud.file_systems.responses import FileSystemsResponse

url_bases = urls.url_bases
url_paths = dict.fromkeys(urls.url_paths, FileSystemsResponse.dispatch)
