"""A task that is ended by a user while its trigger is at work."""

import asyncio
import threading

from tests.waiting import PATIENCE_SECONDS, wait_for


def kill_during(trigger, owner, operation, until):
    """Kill the task in the middle of a call, which goes on afterwards, until something is so."""
    begun, may_go_on = threading.Event(), threading.Event()
    call = getattr(owner, operation)

    def slowly(**request):
        begun.set()
        assert may_go_on.wait(PATIENCE_SECONDS)
        return call(**request)

    setattr(owner, operation, slowly)

    async def kill():
        run = asyncio.create_task(anext(trigger.run()))
        assert await asyncio.to_thread(begun.wait, PATIENCE_SECONDS)
        run.cancel()
        await asyncio.wait([run])
        ending = asyncio.create_task(trigger.on_kill())
        await asyncio.sleep(0)
        ending.cancel()  # as Airflow does a second later
        await asyncio.wait([ending])
        may_go_on.set()
        await asyncio.to_thread(wait_for, until, "end of what was made")

    asyncio.run(kill())
