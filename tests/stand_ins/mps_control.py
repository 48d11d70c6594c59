"""Stands in for nvidia-cuda-mps-control: a daemon with a server, and the command that talks to it.

Like the real one it runs in the foreground with -f, takes commands from standard input otherwise,
keeps its files in CUDA_MPS_PIPE_DIRECTORY, and lets a server of its own outlive it if it is killed.
MPS_STAND_IN says what goes wrong: exits, mute, stubborn, which ignores "quit", or idle, which has
no client and so no server.
"""

import os
import signal
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["CUDA_MPS_PIPE_DIRECTORY"])
FAULT = os.environ.get("MPS_STAND_IN", "")
CONTROL, SERVER, QUIT = (FOLDER / name for name in ("control", "server", "quit"))


def serve():
    print("[Control] Starting control daemon", file=sys.stderr, flush=True)
    if FAULT == "exits":
        print("there is a daemon already", file=sys.stderr, flush=True)
        sys.exit(3)
    if FAULT == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:  # twice, so that it is nobody's child
        os.setsid()
        if os.fork():
            os._exit(0)
        SERVER.write_text(str(os.getpid()))
        time.sleep(3600)
        os._exit(0)
    os.wait()
    while not SERVER.exists():
        time.sleep(0.01)
    if FAULT != "mute":
        CONTROL.write_text(str(os.getpid()))
    while not QUIT.exists() or FAULT == "stubborn":
        time.sleep(0.01)
    os.kill(int(SERVER.read_text()), signal.SIGKILL)
    CONTROL.unlink()


def command(text):
    if not CONTROL.exists():
        sys.exit("Cannot find MPS control daemon process")
    if text == "quit":
        QUIT.touch()
    elif text == "get_server_list":
        if FAULT != "idle":
            print(SERVER.read_text())
    else:
        sys.exit(f"unknown command {text}")


if __name__ == "__main__":
    if sys.argv[1:] == ["-f"]:
        serve()
    else:
        command(sys.stdin.read().strip())
