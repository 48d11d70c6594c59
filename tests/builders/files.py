"""Files of a machine, below a folder in the place of its root, and programs."""

import subprocess


def put(root, name, text):
    (root / name).parent.mkdir(parents=True, exist_ok=True)
    (root / name).write_text(text)
    return root


def program(path, script):
    """A shell script that can be run."""
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def finished(*command, **options):
    """A process that has ended, with what it printed as text."""
    return subprocess.run(command, capture_output=True, text=True, check=False, **options)
