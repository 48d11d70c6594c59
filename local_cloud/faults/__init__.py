"""Faults on demand: failures of AWS, controlled over HTTP on the local cloud itself.

The control API at `/_faults` accepts calls only from this machine, signed like those to any AWS
service. The path can't clash with a bucket's name or another service's path:

- `POST /_faults` with a fault as JSON starts it and returns 201, with the fault and its `id`. For
  example `{"kind": "throttle", "share": 0.3, "services": ["batch"]}`; see `kinds` for all fields.
- `GET /_faults` lists the active faults, and how often each was applied.
- `DELETE /_faults/ID` ends one, `DELETE /_faults` all of them. A fault with `seconds` ends itself.
- `GET /_faults/jobs/ID` shows a job's state and the process ids of its containers' commands.
- `POST /_faults/jobs/ID/nodes/N/kill` kills one node of a running multi-node job.
"""
