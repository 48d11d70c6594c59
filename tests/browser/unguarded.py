"""The local cloud without its guard against browsers: what an attack must harm, to count as one."""

import sys

from local_cloud import __main__, server

server.BrowserGuard = lambda app, hosts: app

if __name__ == "__main__":
    sys.exit(__main__.main())
