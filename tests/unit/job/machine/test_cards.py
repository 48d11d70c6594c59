"""The table of GPUs, against the pinned torch, its CUDA's driver and what Terraform accepts."""

import re

import pytest
import torch

from batchmark_job.machine import cards, cuda
from batchmark_job.machine.cards import CARDS, card_of, runs_on
from tests.paths import ROOT

REFUSED = {"V100"}
BATCH = ROOT / "terraform" / "modules" / "batch" / "variables.tf"


def test_the_table_is_of_the_pinned_torch():
    """When the pin changes, read the wheel's architectures again."""
    pinned = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned.group(1) == cards.TORCH
    gpu = (ROOT / "job_container" / "requirements-gpu.txt").read_text()
    assert f"cuda-toolkit=={cards.CUDA}" in gpu
    assert cuda.FIRST_DRIVERS[int(cards.CUDA.partition(".")[0])] == 580


@pytest.mark.skipif(torch.version.cuda is None, reason="needs torch's CUDA build, but no device")
def test_the_wheel_holds_the_table_s_architectures():
    assert torch._C._cuda_getArchFlags().split() == list(cards.BUILT_FOR)
    assert torch.version.cuda == cards.CUDA


def test_the_wheel_runs_on_all_cards_but_those_refused():
    unfit = {card.model for card in CARDS if not runs_on(card.capability, cards.BUILT_FOR)}
    assert unfit == REFUSED


def test_terraform_refuses_the_same_instance_types():
    refused = re.search(r"regex\(\"\^\(([\w|]+)\)\\\\\.\"", BATCH.read_text()).group(1).split("|")
    for card in CARDS:
        for family in card.families:
            assert (family in refused) == (card.model in REFUSED), family


@pytest.mark.parametrize(
    ("name", "model"),
    [
        ("Tesla T4", "T4"),
        ("NVIDIA A10G", "A10G"),
        ("NVIDIA L4", "L4"),
        ("NVIDIA L40S", "L40S"),
        ("NVIDIA A100-SXM4-40GB", "A100"),
        ("NVIDIA H100 80GB HBM3", "H100"),
        ("NVIDIA H200", "H200"),
        ("NVIDIA B200", "B200"),
        ("Tesla V100-SXM2-16GB", "V100"),
    ],
)
def test_a_card_is_known_by_the_name_that_cuda_gives_it(name, model):
    assert card_of(name).model == model


def test_other_gpus_are_not_known():
    assert card_of("NVIDIA GeForce RTX 4090") is None


@pytest.mark.parametrize(
    ("capability", "built_for", "runs"),
    [
        ((8, 9), ["sm_86"], True),
        ((8, 0), ["sm_86"], False),
        ((10, 3), ["sm_100"], True),
        ((12, 0), ["sm_90", "sm_100"], False),
        ((12, 0), ["compute_90"], True),
        ((9, 0), ["sm_90a"], True),
        ((10, 0), ["sm_90a"], False),
        ((9, 0), ["gfx90a"], False),
    ],
)
def test_code_runs_where_cuda_s_rules_let_it(capability, built_for, runs):
    assert runs_on(capability, built_for) is runs
