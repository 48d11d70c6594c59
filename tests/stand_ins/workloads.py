"""Misbehaving implementations of a real matrix product; nothing here depends on speed."""

import time

from batchmark_job.workloads.matmul import Matmul, TorchMatmul


def product_by(name, spoil=lambda product: product):
    class Spoilt(TorchMatmul):
        def prepare_with(self, inputs, buffers):
            call = super().prepare_with(inputs, buffers)
            return lambda: spoil(call())

    Spoilt.name = name
    return Spoilt()


def matmul_by(*chosen, **changes):
    """A workload with these implementations, and other attributes or methods where given."""
    return type("MatmulByThese", (Matmul,), {"implementations": chosen, **changes})()


def slowed(seconds):
    """Slow an implementation down by at least this much; load on the machine adds to it."""

    def spoil(product):
        time.sleep(seconds)
        return product

    return spoil


def raising(error):
    def spoil(product):
        raise error

    return spoil


def after(calls, spoil):
    """Misbehave only after some calls."""
    made = 0

    def late(product):
        nonlocal made
        made += 1
        return spoil(product) if made > calls else product

    return late
