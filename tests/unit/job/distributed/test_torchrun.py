"""torchrun's arguments, read by torchrun itself, and its store."""

import psutil
import pytest
from torch.distributed.elastic.rendezvous import RendezvousParameters
from torch.distributed.elastic.rendezvous.registry import get_rendezvous_handler
from torch.distributed.run import config_from_args, parse_args

from batchmark_job.distributed import rendezvous
from batchmark_job.distributed.node import RENDEZVOUS
from batchmark_job.distributed.torchrun import Launch, environment
from tests.stand_ins.nodes import MAIN
from tests.stand_ins.stranger import listening


@pytest.mark.parametrize("devices", range(1, 9))
def test_every_node_of_1_to_20_has_its_own_rank_and_the_same_rendezvous(devices, tmp_path):
    for nodes in range(1, 21):
        launch = Launch(1, nodes, devices, "10.0.0.7", 31000)
        for node in {0, nodes // 2, nodes - 1}:
            read = parse_args(launch.arguments(node, tmp_path))
            config, _, words = config_from_args(read)
            assert (config.min_nodes, config.max_nodes) == (nodes, nodes)
            assert config.nproc_per_node == devices
            assert config.rdzv_backend == RENDEZVOUS
            assert config.rdzv_endpoint == "10.0.0.7:31000"
            assert int(config.rdzv_configs["rank"]) == node
            assert int(config.rdzv_configs["timeout"]) >= 15 * 60
            assert config.max_restarts == 0
            assert words[-1] == "batchmark_job.distributed.ranks.rank"


def test_the_store_listens_at_the_main_nodes_address_alone(port):
    rendezvous.register()
    place = (RENDEZVOUS, f"{MAIN}:{port}")
    parameters = RendezvousParameters(*place, "run", 1, 1, rank="0", timeout="20")
    found = get_rendezvous_handler(parameters).next_rendezvous()
    assert listening(psutil.Process(), port) == [MAIN]
    found.store.set("key", "value")
    assert found.store.get("key") == b"value"
    assert (found.rank, found.world_size) == (0, 1)


def test_ranks_are_told_their_task_and_their_network(tmp_path):
    found = environment("127.3.0.1", 4, tmp_path / "task", tmp_path / "answer")
    assert found.pop("GLOO_SOCKET_IFNAME")
    assert found == {
        "BATCHMARK_TASK": str(tmp_path / "task"),
        "BATCHMARK_ANSWER": str(tmp_path / "answer"),
        "OMP_NUM_THREADS": "4",
    }
