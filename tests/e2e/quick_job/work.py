"""A job that knows nothing of Batchmark but how to tell metrics; its argument is what it does."""

import json
import os
import sys
import time

# The smallest size is each side's first: of one that fails by itself, no other would run.
WRONG, FAILS = 1, 2
MARK = "/tmp/{}.wrong"  # what the check finds, and removes


def line(metric, value, unit, *, higher):
    return json.dumps({"metric": metric, "value": value, "unit": unit, "higher_is_better": higher})


def sweep(size):
    """Take longer for larger sizes."""
    time.sleep(size / 100)
    with open(os.environ["BATCHMARK_METRICS"], "a") as file:
        print(line("rate", 100 / size, "items/s", higher=True), file=file)
    print("BATCHMARK_METRIC", line("error", 0.5, "pixels", higher=False), flush=True)


def slower_sweep(size):
    time.sleep(3)
    sweep(size)


def case(number):
    """One of the ways in which a job can go wrong."""
    if number == FAILS:
        print("about to fail", flush=True)
        sys.exit(3)
    if number == WRONG and "NVIDIA_VISIBLE_DEVICES" in os.environ:
        with open(MARK.format(os.environ["AWS_BATCH_JOB_ID"]), "w"):
            pass


if __name__ == "__main__":
    programs = {each.__name__: each for each in (sweep, slower_sweep, case)}
    programs[sys.argv[1]](int(sys.argv[2]))
