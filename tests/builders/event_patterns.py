"""What EventBridge is given by Terraform's module for monitoring."""

import json

from tests.paths import ROOT

PATTERNS = ROOT / "terraform" / "modules" / "monitoring" / "event_patterns"


def event_pattern(name, queue):
    """The pattern that the module gives to EventBridge, for one queue or environment."""
    text = (PATTERNS / f"{name}.json.tftpl").read_text()
    return text.replace("${job_queues}", json.dumps([queue])).replace("${environment}", queue)
