"""The server as a program: its command line, and what it leaves behind when it ends."""

import signal
import socket
import subprocess
import sys
import time

import pytest


def run_to_the_end(command):
    return subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)


def test_a_port_already_taken_is_one_clear_line(local_cloud_command):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        ended = run_to_the_end(local_cloud_command("--port", port))
    assert ended.returncode == 2
    assert ended.stdout == ""
    (line,) = ended.stderr.splitlines()
    assert f"127.0.0.1:{port}" in line
    assert "taken" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--gpus", "-1"], "--gpus: -1 is too small, the least is 0"),
        (["--vcpus", "0"], "--vcpus: 0 is too small, the least is 1"),
        (["--memory", "3"], "--memory: 3 is too small, the least is 4"),
        (["--vcpus", "many"], "--vcpus: 'many' is not a whole number"),
        (["--port", "70000"], "--port: 70000 is no port, the highest is 65535"),
        (["--stop-grace", "nan"], "--stop-grace: 'nan' is not a number of seconds"),
        (["--job-dir", "/no/such/folder"], "'/no/such/folder' is not an existing folder"),
        (["--prices", "/no/such/file"], "'/no/such/file' can't be read: No such file or directory"),
        (["--prices", "/dev/null"], "'/dev/null' is no price table: JSONDecodeError("),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_wrong_options_are_one_clear_line(local_cloud_command, options, message):
    ended = run_to_the_end(local_cloud_command(*options))
    assert ended.returncode == 2
    (line,) = ended.stderr.splitlines()
    assert message in line


def test_a_connection_is_reset_only_by_the_client(cloud):
    with socket.create_connection(cloud.endpoint_url.split("//")[1].split(":")) as connection:
        connection.sendall(b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n")
        while connection.recv(65_536):
            pass
        for _ in range(20):
            connection.sendall(b"late")
            time.sleep(0.01)
        assert connection.recv(1) == b""


@pytest.fixture
def family(tmp_path):
    """A job of three generations, one of them in a session of its own, and their process ids."""
    pid_file = tmp_path / "pids"
    program = tmp_path / "family.py"
    program.write_text(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"with open({str(pid_file)!r}, 'a') as f: f.write(f'{{os.getpid()}}\\n')\n"
        "depth = int(sys.argv[1])\n"
        "if depth:\n"
        "    subprocess.Popen([sys.executable, __file__, str(depth - 1)],\n"
        "                     start_new_session=depth == 2)\n"
        "time.sleep(600)\n"
    )

    def pids():
        found = pid_file.read_text().split() if pid_file.exists() else []
        return [int(pid) for pid in found] if len(found) == 3 else None

    return [sys.executable, str(program), "2"], pids


@pytest.mark.parametrize("signal_number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_no_job_process_outlives_the_server(
    start_cloud, family, signal_number, wait_until, is_running
):
    command, pids = family
    with start_cloud("--vcpus", "2") as cloud:
        cloud.submit(cloud.define(command))
        started = wait_until(pids, "all three processes")
        assert all(is_running(pid) for pid in started)
        cloud.process.send_signal(signal_number)
        code = cloud.process.wait(30)
        assert code == (0 if signal_number != signal.SIGKILL else -signal.SIGKILL)
    # Killed by its own launcher after a SIGKILL of the server; else before the server ended.
    seconds = 10 if signal_number == signal.SIGKILL else 0.5
    wait_until(lambda: not any(is_running(pid) for pid in started), "end of all", seconds)


def test_moto_reset_ends_the_jobs(start_cloud, family, wait_until, is_running):
    command, pids = family
    with start_cloud("--vcpus", "2", "--stop-grace", "0") as cloud:
        job_id = cloud.submit(cloud.define(command))
        started = wait_until(pids, "all three processes")
        with socket.create_connection(cloud.endpoint_url.split("//")[1].split(":")) as connection:
            connection.sendall(b"POST /moto-api/reset HTTP/1.0\r\n\r\n")
            connection.recv(4096)
        wait_until(lambda: not any(is_running(pid) for pid in started), "end of all")
        assert cloud.batch.describe_jobs(jobs=[job_id])["jobs"] == []
