"""What may come between a regression and those who are to hear of it."""

from __future__ import annotations

from functools import partial

from tests.faults.bench import Bench
from tests.faults.catalogue.jobs import told
from tests.faults.fault import Fault, Runs
from tests.faults.outcome import Outcome
from tests.faults.run import DAG_SLOWER


def sns_refuses(bench: Bench) -> Runs:
    """One message comes with its task's next try, the other by the DAG for what is left."""
    with bench.fault("expired_credentials", services=["sns"]):
        lasting = bench.start("sns-refuses-lasting", dag_id=DAG_SLOWER, gated=False)
        bench.finish(lasting)
    bench.send_pending("after-sns-refused")
    with bench.fault("throttle", share=1, services=["sns"]) as refusing:
        passing = bench.start("sns-refuses-passing", dag_id=DAG_SLOWER, gated=False)
        bench.wait(lambda: bench.faults()[refusing]["strikes"], "refused message")
    return {"lasting": lasting, "passing": bench.finish(passing)}


FAULTS = (
    Fault("a regression", partial(told, "slower", dag_id=DAG_SLOWER), {"": Outcome(alerts=1)}),
    Fault(
        "SNS refuses",
        sns_refuses,
        {
            "lasting": Outcome(others="publish_alerts failed", alerts=1),
            "passing": Outcome(alerts=1),
        },
        alone=True,
    ),
)
