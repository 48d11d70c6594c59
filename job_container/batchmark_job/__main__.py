"""Entry point of `python -m batchmark_job` and `batchmark-job`; command_line.py does the work."""

import gc
import sys

from batchmark_job.interruption import Interruption


def main() -> int:
    interruption = Interruption()
    interruption.watch()
    gc.disable()  # imports leave nothing to collect; frozen, they end faster, too
    # Imported here, not above: libraries start threads on import, which must inherit the blocked
    # signals.
    from batchmark_job import command_line

    gc.freeze()
    gc.enable()
    return command_line.main(sys.argv[1:], interruption)


if __name__ == "__main__":
    sys.exit(main())
