"""Emulates AWS failures on demand, controlled through an HTTP API on the local cloud.

The API at `/_faults` accepts calls only from this machine, signed like those to any AWS service.
Its path can't clash with a bucket's name or another service's path:

- `POST /_faults` starts the fault given as JSON, such as
  `{"kind": "throttle", "share": 0.3, "services": ["batch"]}`, and returns 201 with the fault and
  its `id`. All fields are described in `kinds`.
- `GET /_faults` lists the active faults, and how often each has been applied.
- `DELETE /_faults/ID` ends one fault, and `DELETE /_faults` ends all faults. A fault with `seconds`
  ends by itself after that time.
- `GET /_faults/jobs/ID` shows a job's state and the process ids of its containers' commands.
- `POST /_faults/jobs/ID/nodes/N/kill` kills one node of a running multi-node job.
"""
