"""Whatever the SSM parameter holds is refused in one line, or a run can be planned with it."""

import json
from datetime import UTC, datetime

from batchmark.core.config import Config, parse_config
from batchmark.core.errors import ConfigError, PlanError
from batchmark.runs.budget import refusals, worst_case
from batchmark.runs.plans.planning import operator_kwargs, plan_jobs
from tests.builders.hostile import fuzz, texts
from tests.builders.installations import own_types, published
from tests.builders.noise import quick_and_long
from tests.builders.runs import PRICES

PUBLISHED = published(targets=own_types(**{"g5.xlarge": {}, "c5.2xlarge": {}}), monthly_cap_usd=50)
VARIABLES = texts(PUBLISHED, Config.model_json_schema())


def check(text):
    try:
        config = parse_config(text)
        jobs = plan_jobs(config, run_name="manual__2026-11-20", suite="smoke")
    except (ConfigError, PlanError) as error:
        said = str(error)
        assert len(said) < 1000
        return
    for job in jobs:
        json.dumps(operator_kwargs(config, "manual__2026-11-20", job))
    worst = worst_case(config, jobs, PRICES, datetime(2026, 11, 20, tzinfo=UTC))
    refusals(worst, max_cost_usd=5.0)
    worst.model_dump_json()


@quick_and_long("examples", [40], [3_000])
def test_no_published_configuration_is_an_unknown_error(examples):
    fuzz(examples, check, VARIABLES.map(lambda text: text.decode(errors="replace")))
