"""A torchrun rendezvous whose store listens only on the main node's address.

torch's own store listens on all addresses. Neither store has authentication: anyone who can reach
the port during a launch can read the store and write to it.
"""

from __future__ import annotations

import socket

from torch.distributed import TCPStore  # type: ignore[attr-defined]
from torch.distributed.elastic.rendezvous import (
    RendezvousHandler,
    RendezvousInfo,
    RendezvousParameters,
    rendezvous_handler_registry,
)
from torch.distributed.elastic.rendezvous.static_tcp_rendezvous import StaticTCPRendezvous
from torch.distributed.elastic.rendezvous.utils import parse_rendezvous_endpoint

from batchmark_job.distributed.node import RENDEZVOUS


class OwnAddressRendezvous(StaticTCPRendezvous):
    def get_backend(self) -> str:
        return RENDEZVOUS

    def next_rendezvous(self) -> RendezvousInfo:
        if self.rank == 0 and self._store is None:
            listener = socket.create_server((self.master_addr, self.master_port))
            self._store = TCPStore(
                self.master_addr,
                self.master_port,
                self.world_size,
                is_master=True,
                timeout=self.timeout,
                master_listen_fd=listener.detach(),
            )
        return super().next_rendezvous()


def make(parameters: RendezvousParameters) -> RendezvousHandler:
    address, port = parse_rendezvous_endpoint(parameters.endpoint, default_port=-1)
    rank, timeout = (int(parameters.config[name]) for name in ("rank", "timeout"))
    return OwnAddressRendezvous(
        address, port, rank, parameters.max_nodes, parameters.run_id, timeout
    )


def register() -> None:
    """Register this rendezvous with torchrun under the name RENDEZVOUS."""
    rendezvous_handler_registry.register(RENDEZVOUS, make)
