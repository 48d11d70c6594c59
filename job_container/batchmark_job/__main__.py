"""`python -m batchmark_job`: see command_line.py."""

import sys

from batchmark_job.interruption import Interruption

if __name__ == "__main__":
    interruption = Interruption()
    interruption.watch()
    # Only now: libraries start threads when imported, and those must inherit the blocked signals.
    from batchmark_job.command_line import main

    sys.exit(main(sys.argv[1:], interruption))
