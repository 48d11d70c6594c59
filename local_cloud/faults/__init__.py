"""Faults on demand: what AWS does on its bad days, switched over HTTP on the local cloud itself.

The control answers to this machine alone, at `/_faults`, which is no bucket's name and no
service's path:

- `POST /_faults` with a fault as JSON begins it: 201 and the fault with its `id`. `kinds` has the
  kinds and their fields; `{"kind": "throttle", "share": 0.3, "services": ["batch"]}` is one.
- `GET /_faults` shows the faults under way, and how often each has struck.
- `DELETE /_faults/ID` ends one, `DELETE /_faults` all of them. A fault with `seconds` ends itself.
- `GET /_faults/jobs/ID` shows a job's state and the process ids of its containers' commands.
"""
