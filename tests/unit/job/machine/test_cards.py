"""The table of GPUs, against the pinned torch, its CUDA's driver and what Terraform accepts."""

import json
import re

import pytest
import torch

from batchmark_job.machine import cards, cuda
from batchmark_job.machine.cards import CARDS, card_of, runs_on
from tests.paths import ROOT

TABLE = json.loads((ROOT / "plugins/batchmark/aws/instance_families.json").read_text())


def test_the_table_is_of_the_pinned_torch():
    """When the pin changes, read the wheel's architectures again."""
    pinned = re.search(r"^torch==(\S+)", (ROOT / "requirements.txt").read_text(), re.MULTILINE)
    assert pinned.group(1) == cards.TORCH
    unfit = {card.model for card in CARDS if not runs_on(card.capability, cards.BUILT_FOR)}
    assert unfit == {"K520", "K80", "M60", "V100"}
    gpu = (ROOT / "job_container" / "requirements-gpu.txt").read_text()
    assert f"cuda-toolkit=={cards.CUDA}" in gpu
    assert cuda.FIRST_DRIVERS[int(cards.CUDA.partition(".")[0])] == 580
    driver = TABLE["ecs_gpu_ami_driver"]
    assert driver >= 580, "the images' driver is one that the wheel takes"
    assert f"al2023 {driver}." in TABLE["sources"]["ecs_gpu_ami_driver"], "which gets newer with it"


@pytest.mark.skipif(torch.version.cuda is None, reason="needs torch's CUDA build, but no device")
def test_the_wheel_holds_the_table_s_architectures():
    assert torch._C._cuda_getArchFlags().split() == list(cards.BUILT_FOR)
    assert torch.version.cuda == cards.CUDA


def test_the_cards_are_those_of_the_table_which_refuses_a_family_by_what_it_is():
    """All but those that the image's architecture keeps out."""
    families = {
        name: (family["card"], family["compute_capability"])
        for name, family in TABLE["gpu_families"].items()
        if "architecture" not in family
    }
    assert families == {
        name: (card.model, ".".join(map(str, card.capability)))
        for card in CARDS
        for name in card.families
    }
    told = {name: family.get("refused") for name, family in TABLE["gpu_families"].items()}
    assert told == {name: why_refused(family) for name, family in TABLE["gpu_families"].items()}
    assert set(TABLE["refusals"]) == set(told.values()) - {None}


def why_refused(family):
    """By the facts that the table has of a family."""
    capability = tuple(map(int, family["compute_capability"].split(".")))
    if family.get("architecture") == "arm64":
        return "arm"
    if not family.get("whole_gpus", True):
        return "fraction"
    return None if runs_on(capability, cards.BUILT_FOR) else "too_old"


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
        ("NVIDIA B300 SXM6 AC", "B300"),
        ("NVIDIA L4-12Q", "L4"),
        ("NVIDIA RTX PRO 4500 Blackwell Server Edition", "RTX PRO 4500"),
        ("NVIDIA RTX PRO 6000 Blackwell Server Edition", "RTX PRO 6000"),
        ("Tesla V100-SXM2-16GB", "V100"),
        *((name, None) for name in ("NVIDIA GeForce RTX 4090", "NVIDIA GB200", "NVIDIA L40")),
    ],
)
def test_a_card_is_known_by_the_name_that_cuda_gives_it(name, model):
    card = card_of(name)
    assert (card and card.model) == model


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
