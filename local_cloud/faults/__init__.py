"""Faults on demand: failures of AWS, controlled over HTTP on the local cloud itself.

Only this machine can reach the control, at `/_faults`, with calls that are signed as AWS's are, for
any service. No bucket can have that name, and no service that path:

- `POST /_faults` with a fault as JSON begins it and answers 201, with the fault and its `id`. For
  example `{"kind": "throttle", "share": 0.3, "services": ["batch"]}`; see `kinds` for all fields.
- `GET /_faults` shows the faults under way, and how often each has struck.
- `DELETE /_faults/ID` ends one, `DELETE /_faults` all of them. A fault with `seconds` ends itself.
- `GET /_faults/jobs/ID` shows a job's state and the process ids of its containers' commands.
- `POST /_faults/jobs/ID/nodes/N/kill` kills one node of a running multi-node job.
"""
