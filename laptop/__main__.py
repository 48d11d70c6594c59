"""Command line of the laptop stack; the Makefile's targets call it."""

from __future__ import annotations

import argparse
import signal
import sys
from pathlib import Path
from types import FrameType

from laptop.errors import LaptopError

BUILD = Path(__file__).resolve().parent.parent / "build"
INTERRUPTED = 130
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m laptop", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    demo_command = commands.add_parser("demo", help="run the whole chain once")
    demo_command.add_argument("--suite", default="smoke")
    demo_command.add_argument(
        "--folder", type=Path, default=BUILD / "demo", help="where the report goes"
    )
    up_command = commands.add_parser("up", help="start everything and leave it running")
    up_command.add_argument("--port", type=int, default=8080, help="port of the Airflow UI")
    down_command = commands.add_parser("down", help="stop what `up` started")
    for command in (up_command, down_command):
        command.add_argument("--folder", type=Path, default=BUILD / "up", help="of the stack")
    arguments = parser.parse_args()
    for number in SIGNALS:
        signal.signal(number, _interrupt)
    try:
        if arguments.command == "demo":
            from laptop.demo import demo

            demo(arguments.suite, arguments.folder)
        elif arguments.command == "up":
            from laptop.up import up

            up(arguments.port, arguments.folder)
        else:
            from laptop.up import down

            down(arguments.folder)
    except LaptopError as error:
        print(f"{arguments.command}: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print(f"{arguments.command}: interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _interrupt(_number: int, _frame: FrameType | None) -> None:
    """Interrupt once; what follows is clean-up, which nothing may interrupt."""
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    raise KeyboardInterrupt


if __name__ == "__main__":
    sys.exit(main())
