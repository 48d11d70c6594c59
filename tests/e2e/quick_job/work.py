"""A job that knows nothing of Batchmark but how to tell metrics; its argument is what it does."""

import json
import os
import sys
import time

# The smallest size is each side's first: of one that fails by itself, no other would run.
WRONG, MALFORMED, LOUD, ENDLESS, FAILS = 1, 2, 3, 4, 5
MARK = "/tmp/{}.wrong"  # what the check finds, and removes
LINES, CHARACTERS = 100_000, 99  # and the ends of the lines: 10 MB, ten pages of a log


def line(metric, value, unit, *, higher):
    return json.dumps({"metric": metric, "value": value, "unit": unit, "higher_is_better": higher})


def to_file(*lines):
    with open(os.environ["BATCHMARK_METRICS"], "a") as file:
        file.writelines(f"{each}\n" for each in lines)


def to_log(*lines):
    for each in lines:
        print(f"BATCHMARK_METRIC {each}", flush=True)


def sweep(size):
    """Take longer for larger sizes."""
    time.sleep(size / 100)
    to_file(line("rate", 100 / size, "items/s", higher=True))
    to_log(line("error", 0.5, "pixels", higher=False))


def slower_sweep(size):
    time.sleep(3)
    sweep(size)


def case(number):
    """One of the ways in which a job can go wrong; some of them on one target only."""
    on_gpu = "NVIDIA_VISIBLE_DEVICES" in os.environ
    if number == FAILS:
        print("about to fail", flush=True)
        sys.exit(3)
    if number == WRONG and on_gpu:
        with open(MARK.format(os.environ["AWS_BATCH_JOB_ID"]), "w"):
            pass
    if number == MALFORMED:
        good, below_zero = (line("rate", value, "items/s", higher=True) for value in (7, -1))
        to_log("no JSON", good, below_zero)
        to_file(line("share", 0.5, "of all", higher=True), '{"metric": "share"}')
    if number == ENDLESS and on_gpu:
        while True:
            time.sleep(60)
    if number == LOUD and not on_gpu:
        for _ in range(LINES):
            print("x" * CHARACTERS)
        to_log(line("rate", 9, "items/s", higher=True))


if __name__ == "__main__":
    programs = {each.__name__: each for each in (sweep, slower_sweep, case)}
    programs[sys.argv[1]](int(sys.argv[2]))
