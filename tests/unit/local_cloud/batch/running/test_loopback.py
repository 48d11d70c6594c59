"""Addresses of nodes that share their machine's network."""

import itertools
import socket
from ipaddress import ip_address

import pytest

from local_cloud.batch.running import loopback


@pytest.mark.skipif("sys.platform != 'linux'")
def test_each_address_is_new_and_can_be_listened_at():
    found = [loopback.new_address() for _ in range(1000)]
    assert len({*found, loopback.MACHINES_OWN}) == 1001
    with socket.create_server((found[0], 0)) as first:
        port = first.getsockname()[1]
        with socket.create_server((found[1], port)) as second:
            assert second.getsockname() == (found[1], port)


@pytest.mark.parametrize("number", [0, loopback.FOURTH - 1, loopback.ALL - 1, loopback.ALL])
def test_no_address_is_a_networks_own(monkeypatch, number):
    monkeypatch.setattr(loopback, "_numbers", itertools.count(number))
    monkeypatch.setattr("sys.platform", "linux")
    address = ip_address(loopback.new_address())
    assert address.is_loopback
    assert address.packed[3] not in (0, 255)
    assert address.packed[1] not in (0, 255)


def test_elsewhere_than_on_linux_nodes_share_one(monkeypatch):
    monkeypatch.setattr("sys.platform", "darwin")
    assert loopback.new_address() == "127.0.0.1"
