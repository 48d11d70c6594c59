"""`make base-images` against a registry that asks for a token, as Docker Hub does."""

import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from containers.renew_base_images import PINS, REPEATED_IN, Image, RegistryError, main

OLD, NEW = (f"sha256:{digit * 64}" for digit in "01")


@contextmanager
def registry(known):
    """A registry on loopback with the repositories in `known`; yields its address."""

    class Answers(BaseHTTPRequestHandler):
        def do_HEAD(self):
            name = self.path.removeprefix("/v2/").replace("/manifests/", ":")
            if self.headers["Authorization"] != f"Bearer for repository:{name.split(':')[0]}:pull":
                self.send_response(401)
                here = f"http://{self.headers['Host']}/token"
                scope = f"repository:{name.split(':')[0]}:pull"
                self.send_header("WWW-Authenticate", f'Bearer realm="{here}",scope="{scope}"')
            elif name in known and "oci.image.index" in self.headers["Accept"]:
                self.send_response(200)
                self.send_header("Docker-Content-Digest", known[name])
            else:
                self.send_response(404)
            self.end_headers()

        def do_GET(self):
            scope = self.path.partition("scope=")[2].replace("%3A", ":").replace("%2F", "/")
            body = f'{{"token": "for {scope}"}}'.encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        threading.Thread(target=server.serve_forever).start()
        try:
            yield f"127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()


def write(root, text):
    for file in (PINS, *REPEATED_IN):
        root.joinpath(file).parent.mkdir(exist_ok=True)
        root.joinpath(file).write_text(text)


def test_every_mention_of_an_image_gets_the_registrys_digest(tmp_path, capsys):
    with registry({"ours/python:3.11": NEW, "ours/postgres:17": OLD}) as address:
        python, postgres = f"{address}/ours/python:3.11", f"{address}/ours/postgres:17"
        other = f"x{python}@{OLD}"
        write(
            tmp_path, f"PYTHON_IMAGE={python}@{OLD}\nPOSTGRES_IMAGE={postgres}@{OLD}\n# {other}\n"
        )

        assert main(tmp_path) == 0

    for file in (PINS, *REPEATED_IN):
        assert tmp_path.joinpath(file).read_text() == (
            f"PYTHON_IMAGE={python}@{NEW}\nPOSTGRES_IMAGE={postgres}@{OLD}\n# {other}\n"
        )
    said = capsys.readouterr().out.splitlines()
    assert said[0].endswith(f"renewed in {', '.join(map(str, (PINS, *REPEATED_IN)))}")
    assert said[1] == f"{postgres}@{OLD}: as it was"


def test_an_image_that_is_gone_changes_nothing(tmp_path, capsys):
    with registry({"ours/python:3.11": NEW}) as address:
        text = f"A={address}/ours/python:3.11@{OLD}\nB={address}/ours/gone:1@{OLD}\n"
        write(tmp_path, text)

        assert main(tmp_path) == 1

    assert tmp_path.joinpath(PINS).read_text() == text
    assert "nothing is changed: " in capsys.readouterr().err


def test_without_the_registry_nothing_changes(tmp_path, capsys):
    text = f"A=127.0.0.1:1/ours/python:3.11@{OLD}\n"
    write(tmp_path, text)

    assert main(tmp_path) == 1
    assert tmp_path.joinpath(PINS).read_text() == text
    assert "nothing is changed: " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("python:3.11", "https://registry-1.docker.io/v2/library/python/manifests/3.11"),
        ("airflow/x:1", "https://registry-1.docker.io/v2/airflow/x/manifests/1"),
        ("ghcr.io/a/b:c", "https://ghcr.io/v2/a/b/manifests/c"),
    ],
)
def test_short_names_are_docker_hubs(name, url):
    assert Image.named(name).manifest == url


@pytest.mark.parametrize("name", ["python", "127.0.0.1:5000/python"])
def test_a_name_without_a_tag_is_refused(name):
    with pytest.raises(RegistryError, match="has no tag"):
        Image.named(name)
