"""Images of CIFAR-10 from an archive in its binary version; the archives here are made up."""

import io
import tarfile

import numpy as np
import pytest
import torch

from batchmark_job.errors import InputError
from batchmark_job.workloads.builtin import WORKLOADS
from batchmark_job.workloads.support import cifar10
from tests.builders.outputs import wrongness

STEP = WORKLOADS["cnn_training_step"]


def records(count, highest_label=9):
    rng = np.random.default_rng(0)
    labels = np.arange(count) % (highest_label + 1)
    pixels = rng.integers(0, 256, (count, cifar10.RECORD_BYTES - 1))
    return np.column_stack([labels, pixels]).astype(np.uint8).tobytes()


@pytest.mark.parametrize("kind", ["archive", "folder"])
def test_a_batch_holds_images_with_their_labels_and_a_step_on_them_is_right(
    tmp_path, monkeypatch, kind
):
    content, place = records(20), tmp_path
    if kind == "folder":
        (tmp_path / cifar10.FILE).write_bytes(content)
    else:
        place = tmp_path / "cifar-10-binary.tar.gz"
        with tarfile.open(place, "w:gz") as archive:
            member = tarfile.TarInfo(f"cifar-10-batches-bin/{cifar10.FILE}")
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
    monkeypatch.setenv(cifar10.VARIABLE, str(place))
    batch, labels, _ = STEP.make_inputs({"batch": 16}, "float32", 0)
    assert batch.shape == (16, 3, 32, 32)
    assert labels.tolist() == [label for label in range(8) for _ in range(2)]
    first = np.frombuffer(records(1), np.uint8)[1:].reshape(3, 32, 32)
    assert torch.equal(batch[1], torch.from_numpy((first.astype(np.float32) - 127.5) / 64))
    inputs = STEP.make_inputs({"batch": 4}, "float32", 0)
    output = STEP.implementations[0].prepare(inputs)()
    assert wrongness(STEP, inputs, output) < STEP.tolerance("float32")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (None, "No such file"),
        (b"short", "does not contain CIFAR-10 records"),
        (records(20, highest_label=12), "does not contain CIFAR-10 records"),
    ],
)
def test_what_is_no_archive_is_named(tmp_path, monkeypatch, content, message):
    if content is not None:
        (tmp_path / cifar10.FILE).write_bytes(content)
    monkeypatch.setenv(cifar10.VARIABLE, str(tmp_path))
    with pytest.raises(InputError, match=message):
        cifar10.images_and_labels(15)
    monkeypatch.delenv(cifar10.VARIABLE)
    assert cifar10.images_and_labels(2) is None, "without a name images are random"
