"""`make up` and `make down`: the demo's stack, left running for a browser."""

from __future__ import annotations

import json
from pathlib import Path

from laptop.airflow import USER, AirflowClient
from laptop.demo import DAG_ID
from laptop.errors import LaptopError
from laptop.private_files import write_private
from laptop.processes import processes_of, require_port, stop_all
from laptop.session import Clock, exclusive, refuse_beside_others
from laptop.stack import Ports, Stack

LOGIN = "login.json"


def up(port: int, folder: Path) -> None:
    """Start the stack with Airflow on `port` and leave it running; do nothing if it runs already.

    Raises:
        LaptopError: another stack runs, the port is taken, or an earlier start broke off.
    """
    with exclusive(folder):
        if processes_of(folder):
            if not (folder / LOGIN).exists():
                raise LaptopError(
                    f"an earlier start broke off; see {folder / 'logs'}, then `make down`"
                )
            print(f"already up: {_login(folder)}\nStop it with `make down`.")
            return
        refuse_beside_others(folder)
        require_port(port, "Airflow")
        clock = Clock()
        stack = Stack(folder, Ports(airflow=port), clock.say, schedules=True)
        stack.check()
        login = folder / LOGIN
        login.unlink(missing_ok=True)
        try:
            stack.start()
            with AirflowClient(stack.airflow) as airflow:
                airflow.wait_for_dag(DAG_ID)
            found = {
                "Airflow": stack.airflow.url,
                "user": USER,
                "password": stack.airflow.password,
                "local cloud": stack.endpoint,
                "its AWS_SHARED_CREDENTIALS_FILE": str(stack.credentials),
            }
            write_private(login, json.dumps(found))
        except BaseException:
            clock.say("stopping what was started")
            stack.stop()
            raise
    print(f"\n{_login(folder)}\nStop it with `make down`.")


def down(folder: Path) -> None:
    ended = stop_all(folder)
    (folder / LOGIN).unlink(missing_ok=True)
    print(f"stopped {ended} processes" if ended else "nothing was running")


def _login(folder: Path) -> str:
    login = json.loads((folder / LOGIN).read_text())
    return ", ".join(f"{name} {value}" for name, value in login.items())
