"""Marked lines as only a broken or hostile job would tell them."""

from hypothesis import strategies as st

from batchmark.aws.job_log import FACT_MARK, MARKS, MarkedLine
from tests.builders.watched_jobs import metric

KEYS = (
    *("begin", "cpu", "threads", "memory_kib", "kernel", "gpu", "end", "busy", "peak_memory"),
    *("gpu_busy", "check", "sha256", "metrics_left_out", "over"),
)
NUMBERS = st.integers(min_value=0, max_value=10**19).map(str)
WORDS = st.one_of(st.text(max_size=20), NUMBERS, st.floats().map(str))
UNITS = st.text(max_size=10, alphabet="a/s0 ")
METRICS = st.builds(metric, value=WORDS, unit=UNITS, better=st.sampled_from(("true", "false")))
FACTS = st.tuples(st.sampled_from(KEYS), st.lists(WORDS, max_size=5)).map(
    lambda parts: f"{FACT_MARK}{parts[0]} {' '.join(parts[1])}"
)
JUNK = st.tuples(st.sampled_from(MARKS), st.text(max_size=80)).map("".join)


def marked_lines():
    return st.builds(MarkedLine, st.integers(), st.one_of(FACTS, METRICS, JUNK), st.none())
