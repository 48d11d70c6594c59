"""The Airflow integration: operators, triggers, tasks, assets and links."""

import logging

# At INFO they tell each task's log which credentials and endpoints they found, and nothing else.
for _name in ("botocore", "airflow.providers.amazon.aws.utils.connection_wrapper"):
    logging.getLogger(_name).setLevel(logging.WARNING)
