"""Adds what moto's Budgets service lacks: subscribers, updates and tags."""

from __future__ import annotations

import json
from typing import Any

from moto.budgets.exceptions import NotFoundException
from moto.budgets.models import Budget
from moto.budgets.responses import BudgetsResponse

# moto calls the response's method with the operation's name; its methods are untyped.
Response = Any


def fill() -> None:
    """Add the calls that Terraform makes but moto lacks."""
    answer_create = BudgetsResponse.create_budget

    def create_budget(self: Response) -> str:
        answer = answer_create(self)
        set_tags(find(self, self._get_param("Budget")["BudgetName"]), self, "ResourceTags")
        return answer

    BudgetsResponse.create_budget = create_budget  # type: ignore[method-assign]
    for call in (
        update_budget,
        describe_subscribers_for_notification,
        list_tags_for_resource,
        tag_resource,
        untag_resource,
    ):
        setattr(BudgetsResponse, call.__name__, call)


def find(response: Response, name: str) -> Any:
    """Return the caller's budget with this name, or raise NotFoundException."""
    budget = response.backend.budgets[response.current_account].get(name)
    if budget is None:
        raise NotFoundException(f"Unable to get budget: {name} - the budget doesn't exist.")
    return budget


def tagged(response: Response) -> Any:
    """Return the budget named in a tagging call's ARN, which ends in `budget/<name>`."""
    return find(response, response._get_param("ResourceARN").rpartition("budget/")[2])


def set_tags(budget: Any, response: Response, parameter: str) -> None:
    sent = {tag["Key"]: tag["Value"] for tag in response._get_param(parameter) or []}
    budget.resource_tags = {**getattr(budget, "resource_tags", {}), **sent}


def update_budget(self: Response) -> str:
    """Replace a budget, keeping its notifications, tags and, if none is given, its time period."""
    new = self._get_param("NewBudget")
    budget = find(self, new["BudgetName"])
    budget.budget = Budget({"TimePeriod": budget.budget["TimePeriod"], **new}, []).budget
    return json.dumps({})


def describe_subscribers_for_notification(self: Response) -> str:
    wanted = self._get_param("Notification")
    budget = find(self, self._get_param("BudgetName"))
    found = [known for known in budget.notifications if known.details == wanted]
    if not found:
        raise NotFoundException("Unable to get subscribers - the notification doesn't exist.")
    return json.dumps({"Subscribers": found[0].subscribers})


def list_tags_for_resource(self: Response) -> str:
    tags = getattr(tagged(self), "resource_tags", {})
    return json.dumps({"ResourceTags": [{"Key": k, "Value": v} for k, v in tags.items()]})


def tag_resource(self: Response) -> str:
    set_tags(tagged(self), self, "ResourceTags")
    return json.dumps({})


def untag_resource(self: Response) -> str:
    budget = tagged(self)
    gone = self._get_param("ResourceTagKeys")
    tags = getattr(budget, "resource_tags", {})
    budget.resource_tags = {key: value for key, value in tags.items() if key not in gone}
    return json.dumps({})
