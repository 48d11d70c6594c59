"""Airflow users' access rights, derived from their permissions on our DAGs.

Airflow doesn't protect a plugin's routes, so each of ours asks Airflow's auth manager.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import chain
from typing import Annotated

from airflow.api_fastapi.app import get_auth_manager
from airflow.api_fastapi.auth.managers.models.base_user import BaseUser
from airflow.api_fastapi.auth.managers.models.resource_details import DagAccessEntity, DagDetails
from airflow.api_fastapi.core_api.security import GetUserDep
from airflow.configuration import conf
from airflow.models import DagModel
from fastapi import Depends, Form, HTTPException, Request
from itsdangerous import BadData, URLSafeTimedSerializer

from batchmark_job.result.printable import printable

# Who may see these DAGs' runs may see what they measured, and who may trigger the other may do the
# same here.
READ_DAG, EDIT_DAG = "gpu_cpu_benchmark", "change_alert"
FORM_SECONDS = 12 * 3600
SAME_SITE = {"same-origin", "none"}


@dataclass(frozen=True)
class Visitor:
    user: BaseUser

    @property
    def name(self) -> str:
        return str(self.user.get_name())

    @property
    def may_edit(self) -> bool:
        return _allowed(self.user, "POST", EDIT_DAG)

    def may_read(self, dag_id: str) -> bool:
        return _allowed(self.user, "GET", dag_id)

    @property
    def token(self) -> str:
        """A signed token, valid for 12 hours, proving that a form came from this user's page."""
        return _signer().dumps(str(self.user.get_id()))


def reader(request: Request, user: GetUserDep) -> Visitor:
    """Return the visitor, who must have read access.

    Raises:
        HTTPException: 401 without a session, 403 without permission, 400 if the address contains a
            control character, which none of our names contain.
    """
    visitor = Visitor(user)
    check_may_read(visitor, READ_DAG)
    for word in (request.scope["path"], *chain(*request.query_params.multi_items())):
        if (shown := printable(word)) != word:
            raise HTTPException(400, f"The address contains a control character in {shown!r}.")
    return visitor


Reader = Annotated[Visitor, Depends(reader)]


def check_may_read(visitor: Visitor, dag_id: str) -> None:
    """Raise a 403 HTTPException if the visitor may not see the DAG's runs."""
    if not visitor.may_read(dag_id):
        raise HTTPException(403, f"This page needs permission to see runs of {dag_id}.")


def editor(request: Request, visitor: Reader, token: Annotated[str, Form()] = "") -> Visitor:
    """Return the visitor, who must have sent one of our forms and be allowed to change alerts.

    Raises:
        HTTPException: 403 without permission, or if the form came from another site, has expired or
            belongs to another user.
    """
    if not visitor.may_edit:
        raise HTTPException(403, f"Changing an alert needs permission to trigger {EDIT_DAG}.")
    if request.headers.get("sec-fetch-site", "none") not in SAME_SITE:
        raise HTTPException(403, "This form came from another site.")
    try:
        signed_for = _signer().loads(token, max_age=FORM_SECONDS)
    except BadData:
        signed_for = None
    if signed_for != str(visitor.user.get_id()):
        raise HTTPException(403, "This form has expired or isn't yours: open the page again.")
    return visitor


Editor = Annotated[Visitor, Depends(editor)]


def _allowed(user: BaseUser, method: str, dag_id: str) -> bool:
    return bool(
        get_auth_manager().is_authorized_dag(
            method=method,  # type: ignore[arg-type]
            access_entity=DagAccessEntity.RUN,
            details=DagDetails(id=dag_id, team_name=DagModel.get_team_name(dag_id)),
            user=user,
        )
    )


def _signer() -> URLSafeTimedSerializer:
    return URLSafeTimedSerializer(conf.get("api", "secret_key"), salt="batchmark")
