"""HTTP servers in this process, in the place of a service of the machine."""

from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread


class QuietHandler(BaseHTTPRequestHandler):
    def log_message(self, *_):
        """Keep the tests' output clean."""


@contextmanager
def serving_by(handler):
    """A server on a free port with this class of handlers."""
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def serving(answer):
    """A server on a free port, whose status and body for each request `answer` gives."""

    class Handler(QuietHandler):
        def do_GET(self):
            status, body = answer(self)
            self.send_response(status)
            self.end_headers()
            self.wfile.write(body)

        do_PUT = do_POST = do_GET  # noqa: N815

    return serving_by(Handler)
