"""Tasks that were deferred before the trigger moved."""

from airflow._shared.module_loading import import_string

from tests.stand_ins.following import ON_DEMAND, RUNNING, SUCCEEDED, Following

OLD_PATH = "batchmark.orchestration.batch_trigger.BenchmarkJobTrigger"


def test_a_task_deferred_before_the_move_still_ends_well():
    """The triggerer makes a trigger of the class path and the arguments that the database holds."""
    _, arguments = Following(on_demand=ON_DEMAND).trigger.serialize()
    assert import_string(OLD_PATH)(**arguments).order.on_demand == ON_DEMAND
    following = Following(trigger=import_string(OLD_PATH))
    assert following.succeeds((1, RUNNING), (30, SUCCEEDED))["return_value"] == "job-1"
