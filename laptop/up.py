"""`make up` and `make down`: the same stack, left running for a browser."""

from __future__ import annotations

import json

from laptop.airflow import USER, AirflowClient
from laptop.demo import DAG_ID
from laptop.errors import LaptopError
from laptop.processes import free_port, processes_of, require_port, stop_all
from laptop.session import UP, Clock, exclusive
from laptop.stack import Ports, Stack

LOGIN = UP / "login.json"


def up(port: int) -> None:
    """Start the stack with Airflow on `port` and leave it running.

    Raises:
        LaptopError: it runs already, or the port is taken.
    """
    with exclusive(UP):
        if processes_of(UP):
            raise LaptopError(f"already up: {_login()}; stop it with `make down`")
        require_port(port, "Airflow")
        clock = Clock()
        stack = Stack(UP, Ports(airflow=port, cloud=free_port()), clock.say, schedules=True)
        stack.check()
        try:
            stack.start()
            with AirflowClient(stack.airflow) as airflow:
                airflow.wait_for_dag(DAG_ID)
            LOGIN.touch(mode=0o600)
            LOGIN.write_text(
                json.dumps(
                    {
                        "Airflow": stack.airflow.url,
                        "user": USER,
                        "password": stack.airflow.password,
                        "local cloud": stack.endpoint,
                    }
                )
            )
        except BaseException:
            clock.say("stopping what was started")
            stack.stop()
            raise
    print(f"\n{_login()}\nStop it with `make down`.")


def down() -> None:
    ended = stop_all(UP)
    LOGIN.unlink(missing_ok=True)
    print(f"stopped {ended} processes" if ended else "nothing was running")


def _login() -> str:
    if not LOGIN.exists():
        return f"still starting, or broken; see {UP / 'logs'}"
    return ", ".join(f"{name} {value}" for name, value in json.loads(LOGIN.read_text()).items())
