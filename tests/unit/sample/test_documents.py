"""Nothing of the sample is taken for a measurement."""

import pytest

from batchmark.aws.result_bucket import RunStore
from batchmark.core.errors import CollectError
from batchmark.runs.plans.planning import plan_jobs
from batchmark.runs.result_documents import ExpectedDocument, key_of
from sample import story
from sample.bucket import MemoryBucket
from sample.documents import ran
from sample.installation import SUITE_DAG, SampleRun, config


def test_a_made_up_document_is_refused_in_a_run_of_ones_own():
    found = config()
    store = RunStore(MemoryBucket(found.bucket, found.region), found.bucket, "scheduled__1")
    planned, *_ = plan_jobs(found, run_name=store.name, suite=story.SUITE)
    made_up = SampleRun(SUITE_DAG, 0)
    document, _ = ran(made_up.run_id, 0, planned, "job-1", made_up.at)
    expected = ExpectedDocument.of("scheduled__1", planned)
    store.put(key_of(expected.uri("job-1", 1)), document.to_json())
    with pytest.raises(CollectError, match="has run_id 'made-up__blog__2025-11-24', expected"):
        expected.read_raw(store, "job-1", 1)
