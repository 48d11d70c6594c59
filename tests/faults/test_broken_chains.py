"""Mutants of the chain, one task broken in each: the matrix must show every one."""

from functools import partial

import pytest

from tests.faults.catalogue.jobs import told
from tests.faults.dags.broken import ALERTING, BROKEN
from tests.faults.matrix import inflict_all
from tests.faults.outcome import NONE_BROKEN, Fault, Outcome, lost_for

pytestmark = [pytest.mark.timeout(1200), pytest.mark.full_matrix]

MADE_UP = {"find_changes"}  # the chain's only task that is not the product's


def faults_of(chain):
    """A job that ends well and one that does not; for what sends alerts, the former alone."""
    alerts = int(bool(ALERTING & BROKEN[chain].keys()))
    good = partial(told, f"{chain}-good", dag_id=chain)
    found = [Fault(f"{chain}, good job", good, {"": Outcome(alerts=alerts)})]
    if not alerts:
        bad = partial(told, f"{chain}-failing", dag_id=chain, document="none", exit_code=3)
        found.append(Fault(f"{chain}, failing job", bad, {"": lost_for("exit code 3")}))
    return found


def test_each_broken_chain_shows(bench, record_property):
    for chain in BROKEN:
        bench.airflow.wait_for_dag(chain)
        bench.airflow.unpause(chain)
    faults = {chain: faults_of(chain) for chain in BROKEN}
    results = inflict_all(bench, [fault for both in faults.values() for fault in both])

    def is_seen(fault):
        seen, invariants, _, log = results[fault.name, ""]
        assert invariants is not None, f"{fault.name} was not judged: {log}"
        return seen != fault.expected[""] or invariants != NONE_BROKEN

    shown = {chain: any(map(is_seen, both)) for chain, both in faults.items()}
    tasks = {chain: task for chain in BROKEN for task in BROKEN[chain]}
    record_property("mutants", [(tasks[chain], chain, red) for chain, red in shown.items()])
    assert [chain for chain, is_shown in shown.items() if not is_shown] == []

    ran = bench.airflow.task_instances("sends_no_alert", "sends_no_alert-good")
    assert {task["task_id"] for task in ran} - MADE_UP == set(tasks.values())
