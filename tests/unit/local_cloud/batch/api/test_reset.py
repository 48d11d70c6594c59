"""A reset of the whole cloud while jobs change their state."""

import threading

from moto.core import base_backend
from moto.core.base_backend import BackendDict

from tests.stand_ins.local_batch import SOON_SECONDS

ROUNDS = 12


class BoundedLock:
    """moto's lock, for a thread that waits a second for it at most."""

    def __init__(self, lock):
        self._lock = lock
        self.gave_up = []

    def __enter__(self):
        if not self._lock.acquire(timeout=1):
            self.gave_up.append(threading.current_thread().name)
            raise TimeoutError("moto's lock is held for good")

    def __exit__(self, *_):
        self._lock.release()


def test_a_reset_and_jobs_that_change_state_never_block_each_other(batch, monkeypatch):
    lock = BoundedLock(threading.RLock())
    monkeypatch.setattr(base_backend, "backend_lock", lock)
    batch.containers.may_end.set()
    for _ in range(ROUNDS):
        batch.environment()
        batch.queue()
        batch.define(needs={"VCPU": 0.25})
        batch.submit(arrayProperties={"size": 20})
        reset = threading.Thread(target=BackendDict.reset, daemon=True)
        reset.start()
        reset.join(SOON_SECONDS)
        assert not reset.is_alive()
        assert lock.gave_up == []
