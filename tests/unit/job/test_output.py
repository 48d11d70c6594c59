import os
from pathlib import Path

import pytest
from botocore.exceptions import ClientError

from batchmark_job.errors import InputError, OutputError
from batchmark_job.output import FileOutput, S3Output, document_name, parse_output
from tests.stand_ins.bucket import MemoryBucket


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("/tmp/a.json", FileOutput(Path("/tmp/a.json"))),
        ("results/", FileOutput(Path("results/job_3.2.json"))),
        ("s3://bucket/raw/a.json", S3Output("bucket", "raw/a.json")),
        ("s3://bucket/raw/", S3Output("bucket", "raw/job_3.2.json")),
        ("s3://bucket/", S3Output("bucket", "job_3.2.json")),
    ],
)
def test_addresses(address, expected):
    assert parse_output(address, "job:3", 2) == expected
    assert document_name("ab-1#0", 1) == "ab-1_0.1.json", "no special characters"


def test_file_is_written_whole_and_alone(tmp_path):
    output = FileOutput(tmp_path / "new" / "folder" / "result.json")
    output.check()
    assert not list(tmp_path.iterdir()), "a check leaves nothing behind"
    output.write("first")
    output.write("second")
    assert output.path.read_text() == "second"
    (output.path.parent / "taken").mkdir()
    with pytest.raises(OutputError, match="could not write"):
        FileOutput(output.path.parent / "taken").write("text")
    left = sorted(path.name for path in output.path.parent.iterdir())
    assert left == ["result.json", "taken"], "and no temporary file"


def test_what_is_no_plain_file_is_written_through_and_never_replaced(tmp_path):
    """Root could else turn /dev/null into a file."""
    pipe, link = tmp_path / "pipe", tmp_path / "link"
    os.mkfifo(pipe)
    link.symlink_to("file")
    reader = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    for path in (pipe, link):
        output = FileOutput(path)
        output.check()
        output.write("text")
    assert os.read(reader, 100) == b"text"
    os.close(reader)
    assert pipe.is_fifo()
    assert link.is_symlink()
    assert (tmp_path / "file").read_text() == "text"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ("", "is a folder; add a trailing '/' or name a file"),
        ("file/result.json", "can't write to"),
        # As with a folder of another user's, which stops everybody but root.
        ("long" * 100 + "/result.json", r"can't write to .* \(File name too long\)"),
    ],
    ids=["folder", "below a file", "not even to be looked at"],
)
def test_a_place_that_takes_no_file_is_refused(place, message, tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(InputError, match=message):
        FileOutput(tmp_path / place).check()


def test_jobs_by_hand_overwrite_no_other_in_a_folder(tmp_path):
    """Seen: six repeats into one folder left a single document."""
    for number in (1, 2, 3):
        output = parse_output(f"{tmp_path}/", "local", 1)
        assert output.path == tmp_path / f"local.{number}.json"
        output.write("{}")


@pytest.fixture
def bucket(monkeypatch):
    made = MemoryBucket("results", "us-east-1")
    monkeypatch.setattr("batchmark_job.output.s3_client", lambda **_: made)
    return made


def test_a_document_in_s3_is_replaced_by_hand_alone_and_a_lost_answer_is_found_out(
    bucket, monkeypatch
):
    place = parse_output("s3://results/raw/", "job", 1)
    place.write("first")
    with pytest.raises(OutputError, match=r"could not write s3://results/raw/job.1.json.*Precond"):
        parse_output("s3://results/raw/", "job", 1).write("second")
    assert bucket.objects == {"raw/job.1.json": b"first"}
    for text in ("first", "second"):
        parse_output("s3://results/raw/", "local", 1).write(text)
    assert bucket.objects["raw/local.1.json"] == b"second"
    put = bucket.put_object

    def put_again(**asked):
        """As botocore tells it: it tried again, and found its own object."""
        try:
            put(**asked)
        except ClientError as error:
            error.response["ResponseMetadata"] = {"RetryAttempts": 1}
            raise

    monkeypatch.setattr(bucket, "put_object", put_again)
    place.write("first")
