"""A local cloud that never comes to its end by itself."""

import sys
import threading

from local_cloud import __main__, server
from local_cloud.batch.scheduling.scheduler import Scheduler

if __name__ == "__main__":
    Scheduler.close = lambda self: threading.Event().wait()
    server.SHUTDOWN_SECONDS = 0.5
    sys.exit(__main__.main())
