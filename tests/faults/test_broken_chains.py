"""Break one task of the chain at a time: the matrix must show it."""

from functools import partial

import pytest

from tests.faults.catalogue.jobs import told
from tests.faults.dags.broken import BROKEN
from tests.faults.fault import Fault
from tests.faults.matrix import inflict_all
from tests.faults.outcome import NONE_BROKEN, Outcome

pytestmark = [pytest.mark.timeout(1200), pytest.mark.full_matrix]


def faults_of(chain):
    """A job that ends well and one that does not."""
    failing = Outcome("failed", kept=False, says="exit code 3", lost="exit code 3")
    return [
        Fault(f"{chain}, good job", partial(told, f"{chain}-good", dag_id=chain), {"": Outcome()}),
        Fault(
            f"{chain}, failing job",
            partial(told, f"{chain}-failing", dag_id=chain, document="none", exit_code=3),
            {"": failing},
        ),
    ]


def test_each_broken_chain_shows(bench):
    for chain in BROKEN:
        bench.airflow.wait_for_dag(chain)
        bench.airflow.unpause(chain)
    faults = {chain: faults_of(chain) for chain in BROKEN}
    results = inflict_all(bench, [fault for both in faults.values() for fault in both])

    def is_seen(fault):
        seen, invariants, *_ = results[fault.name, ""]
        return seen != fault.expected[""] or invariants != NONE_BROKEN

    assert [chain for chain, both in faults.items() if not any(map(is_seen, both))] == []
