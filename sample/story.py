"""Everything that happens in the sample's year, and the made-up figures behind it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256

import numpy as np

from batchmark_job.result.version import GivenVersion

SEED = 20251124
FIRST = datetime(2025, 11, 24, 3, 0, tzinfo=UTC)
WEEKS = 52
GPUS, CPUS = ("g4dn.xlarge", "g5.xlarge"), ("c5.2xlarge", "c7i.2xlarge")
TARGETS = GPUS + CPUS
SUITE, SUITE_REPEATS = "blog", 1
# Seconds of a call, by row and by target in the order of TARGETS.
ROWS: Mapping[tuple[str, str, int], tuple[float, ...]] = {
    ("matmul", "size", 2000): (0.0042, 0.0016, 0.055, 0.036),
    ("matmul", "size", 8000): (0.262, 0.0751, 3.1, 1.92),
    ("image_convolution", "image", 4096): (0.112, 0.0391, 0.731, 0.462),
    ("gaussian_blur", "size", 4096): (0.0061, 0.0028, 0.031, 0.0212),
    ("edge_detection", "size", 512): (0.00044, 0.00039, 0.00021, 0.00017),
}
JOB, JOB_REPEATS = "convert", 6
JOB_TARGETS = ("g5.xlarge", "c7i.2xlarge")
SIZES = (256, 1024)
# Seconds before the first image, and per image.
JOB_SECONDS = {"g5.xlarge": (12.0, 0.018), "c7i.2xlarge": (4.0, 0.071)}
COLD_SECONDS = 24.0  # extra seconds if the instance had to start
PRICES = {"g4dn.xlarge": 0.526, "g5.xlarge": 1.006, "c5.2xlarge": 0.34, "c7i.2xlarge": 0.357}
START_SECONDS = 240  # from submitting a run's jobs to the start of the first one
OLD_DRIVER, NEW_DRIVER = "580.95.05", "590.44.01"
BUILDS = ("2025.11", "2026.02", "2026.03")  # releases of the suite's image
# Noise as standard deviations of logs: of a run, a job in it, and a call in that.
RUN_NOISE, JOB_NOISE, CALL_NOISE = 0.006, 0.004, 0.01


@dataclass(frozen=True)
class Event:
    """A change on a target from week `since` to just before week `until`, counted from 0."""

    target: str
    since: int
    until: int = WEEKS
    slowdown: float = 1.0

    def holds(self, target: str, week: int) -> bool:
        return target == self.target and self.since <= week < self.until


SLOW_BUILD = Event("c5.2xlarge", 12, 16, slowdown=1.12)  # of our own image: an alert that recovers
CHEAPER = Event("g4dn.xlarge", 15)
PRICE_AFTER = 0.473  # a tenth less than in PRICES
NOISY = Event("c7i.2xlarge", 25, 26, slowdown=1.35)  # affects the run, but not its fresh jobs
DRIVER = Event("g5.xlarge", 31, slowdown=1.09)
COMMIT_WEEK, COMMIT_SLOWDOWN = 40, 1.16  # the sample's own job, wherever it runs
# Each release with its first week; the second one changed nothing.
COMMITS = {
    0: "c07be1a9d2f64e3f8b15a0c7d96e2f4b81d3a5c6",
    22: "8d41f07be2c95a6d3f80b1e47c2a96d5f3e8b014",
    COMMIT_WEEK: "3f2a91c6d7e80b4f5a1c92e3b6d8f07a4c5e9b13",
}
BRANCH = "main"
NODES_WEEK = 50  # of the only multi-node run, which has a what-if page


def day(week: int) -> datetime:
    return FIRST + timedelta(weeks=week)


def slowdown(target: str, week: int, *, fresh: bool) -> float:
    """Return the factor by which a target's calls are slowed down in a given week."""
    events = [SLOW_BUILD, DRIVER, *([] if fresh else [NOISY])]
    return float(np.prod([one.slowdown for one in events if one.holds(target, week)]))


def price(instance_type: str, week: int) -> float:
    return PRICE_AFTER if CHEAPER.holds(instance_type, week) else PRICES[instance_type]


def prices(week: int) -> dict[str, float]:
    return {name: price(name, week) for name in PRICES}


def driver(target: str, week: int) -> str | None:
    if target not in GPUS:
        return None
    return NEW_DRIVER if DRIVER.holds(target, week) else OLD_DRIVER


def image(target: str, week: int) -> str:
    """Return the digest of the suite's image on a target in a given week."""
    if SLOW_BUILD.holds(target, week):
        return digest(BUILDS[1])
    return digest(BUILDS[2 if week >= SLOW_BUILD.until else 0])


def digest(text: str) -> str:
    return f"sha256:{sha256(text.encode()).hexdigest()}"


def commit(week: int) -> str:
    return next(found for since, found in reversed(COMMITS.items()) if since <= week)


def version(week: int) -> GivenVersion:
    """Return the version of the sample's own job in a given week."""
    return GivenVersion(commit=commit(week), branch=BRANCH)


@dataclass(frozen=True)
class Job:
    """A job with made-up times, whose random noise depends only on its fields."""

    run_id: str
    week: int
    target: str
    repeat: int
    fresh: bool = False

    @property
    def _of_run(self) -> float:
        return float(self._random("run", self.target).normal(0, RUN_NOISE))

    @property
    def _factor(self) -> float:
        own = self._random("job", self.target, self.repeat).normal(0, JOB_NOISE)
        return float(np.exp((0 if self.fresh else self._of_run) + own))

    def calls(self, count: int = 15) -> Iterator[tuple[tuple[str, str, int], list[float]]]:
        """Yield each row with the times of its calls, in seconds."""
        noise = self._random("calls", self.target, self.repeat)
        factor = slowdown(self.target, self.week, fresh=self.fresh) * self._factor
        for row, seconds in ROWS.items():
            level = seconds[TARGETS.index(self.target)] * factor
            yield row, [float(one) for one in level * np.exp(noise.normal(0, CALL_NOISE, count))]

    def seconds(self, size: int, *, cold: bool) -> float:
        """Return how many seconds the sample's own job takes at a size."""
        start, each = JOB_SECONDS[self.target]
        slower = COMMIT_SLOWDOWN if self.week >= COMMIT_WEEK else 1.0
        own = self._random("size", self.target, self.repeat, size).normal(0, 2 * JOB_NOISE)
        of_run = 0.0 if self.fresh else self._of_run
        return float((start + each * size) * slower * np.exp(of_run + own) + COLD_SECONDS * cold)

    def _random(self, *words: object) -> np.random.Generator:
        text = " ".join(map(str, (SEED, self.run_id, *words)))
        return np.random.default_rng(list(text.encode()))
