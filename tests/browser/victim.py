"""A local cloud that hostile pages attack: the attacks, and what they did to it."""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from botocore.exceptions import ClientError

from tests.clouds import Cloud, running
from tests.waiting import wait_for

PARAMETER = "/airflow/variables/batchmark"
BUCKET = "batchmark-results"
REPORT = "runs/report.html"
RECORDING = "moto_recording"  # moto's recorder writes it into the current folder
ANSWER = re.compile(r'"(?P<method>[A-Z]+) (?P<path>\S+) HTTP/1.1" (?P<status>\d{3})')


class Victim:
    """It holds what Airflow reads, and a report; both hold a secret word.

    Args:
        folder: its current one, where it also logs its answers.
    """

    def __init__(self, cloud: Cloud, folder: Path) -> None:
        self.cloud = cloud
        self.url = cloud.endpoint_url
        self.port = urlsplit(self.url).port
        self.secret = secrets.token_hex(8)
        self._folder = folder
        self._read_until = 0
        self._control = cloud.control()

    def close(self) -> None:
        self._control.close()

    def prepare(self) -> None:
        """Undo what the last attack did."""
        self._control.post("/moto-api/recorder/stop-recording")
        self._folder.joinpath(RECORDING).unlink(missing_ok=True)
        self._control.delete("/_faults")
        self.cloud.client("ssm").put_parameter(
            Name=PARAMETER, Value=json.dumps({"word": self.secret}), Type="String", Overwrite=True
        )
        if not self.definitions():
            self.cloud.define(["true"])
        s3 = self.cloud.client("s3")
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(
            Bucket=BUCKET,
            Key=REPORT,
            Body=f"<!doctype html><p>{self.secret}".encode(),
            ContentType="text/html",
            ACL="public-read",  # moto refuses unsigned requests of other objects
        )

    def state(self) -> dict[str, Any]:
        """What attacks are after."""
        ssm, s3 = self.cloud.client("ssm"), self.cloud.client("s3")
        parameter = report = None
        with suppress(ClientError):
            parameter = ssm.get_parameter(Name=PARAMETER)["Parameter"]["Value"]
        with suppress(ClientError):
            report = s3.get_object(Bucket=BUCKET, Key=REPORT)["Body"].read()
        return {
            "parameter": parameter,
            "report": report,
            "job definitions": self.definitions(),
            "faults": self._control.get("/_faults").json()["faults"],
            "recording": self._folder.joinpath(RECORDING).exists(),
        }

    def definitions(self) -> list[str]:
        found = self.cloud.batch.describe_job_definitions()["jobDefinitions"]
        return sorted(one["jobDefinitionArn"] for one in found)

    def skip_answers(self) -> None:
        """Forget what was answered so far."""
        self._read_until = len(self._log())

    def answers_to(self, path: str) -> list[int]:
        """Wait for requests of this path; the status of each answer since `skip_answers`."""

        def logged() -> list[int]:
            found = ANSWER.finditer(self._log()[self._read_until :])
            return [int(one["status"]) for one in found if one["path"].startswith(path)]

        return wait_for(logged, f"answer to {path}", every=0.01)

    def _log(self) -> str:
        return log_of(self._folder).read_text()


def log_of(folder: Path) -> Path:
    return folder / "requests.log"


@contextmanager
def started(folder: Path, module: str) -> Iterator[Victim]:
    """The module's local cloud, which asks for no signatures: its guard alone protects it."""
    options = ("--any-credentials", "--log-requests")
    with (
        log_of(folder).open("w") as log,
        running(*options, module=module, folder=folder, log=log) as cloud,
    ):
        victim = Victim(cloud, folder)
        try:
            yield victim
        finally:
            victim.close()


DEFINITION = {
    "jobDefinitionName": "hostile",
    "type": "container",
    "containerProperties": {
        "image": "any",
        "command": ["touch", "/tmp/hostile"],
        "resourceRequirements": [
            {"type": "VCPU", "value": "1"},
            {"type": "MEMORY", "value": "16"},
        ],
    },
}


def _large(fields: Any) -> Any:
    """As CloudFormation spells what Batch takes: names begin with a capital."""
    if isinstance(fields, dict):
        return {name[0].upper() + name[1:]: _large(value) for name, value in fields.items()}
    return [_large(one) for one in fields] if isinstance(fields, list) else fields


PROPERTIES = {**_large(DEFINITION), "RetryStrategy": {"Attempts": 1}}
HOSTILE = {"Type": "AWS::Batch::JobDefinition", "Properties": PROPERTIES}
TEMPLATE = {"Resources": {"Hostile": HOSTILE}}
START = "/moto-api/recorder/start-recording"
REPLAY = "/moto-api/recorder/replay-recording"
RESET = "/moto-api/reset"
FAULT = {"kind": "missing_image", "image": "any"}

# `target` is the local cloud's address. moto reads of the header which service is called, and
# permits every site every header.
LIBRARY = f"""
const PARAMETER = {json.dumps(PARAMETER)}, DEFINITION = {json.dumps(json.dumps(DEFINITION))};
const TEMPLATE = {json.dumps(json.dumps(TEMPLATE))}, FAULT = {json.dumps(json.dumps(FAULT))};
const START = {json.dumps(START)}, REPLAY = {json.dumps(REPLAY)}, RESET = {json.dumps(RESET)};

function authorization(service) {{
    const scope = `any/20261123/us-east-1/${{service}}/aws4_request`;
    return `AWS4-HMAC-SHA256 Credential=${{scope}}, SignedHeaders=host, Signature=any`;
}}

async function read(path, options) {{
    return (await fetch(target + path, options)).text();
}}

function call(service, fields) {{
    const headers = {{Authorization: authorization(service)}};
    return read(`/?${{new URLSearchParams(fields)}}`, {{headers}});
}}

function send(path, body) {{
    return fetch(target + path, {{method: "POST", mode: "no-cors", body}});
}}

function load(tag, attributes) {{
    const element = Object.assign(document.createElement(tag), attributes);
    const done = new Promise(resolve => {{ element.onload = element.onerror = resolve; }});
    document.body.append(element);
    return done;
}}

function submit(path, enctype, fields) {{
    const form = document.createElement("form");
    Object.assign(form, {{method: "post", action: target + path, enctype, target: "frame"}});
    for (const [name, value] of Object.entries(fields)) {{
        form.append(Object.assign(document.createElement("input"), {{name, value}}));
    }}
    document.body.append(form);
    const answered = load("iframe", {{name: "frame"}});
    form.submit();
    return answered;
}}
"""


# Where a hostile page comes from: its address, and the local cloud's from there.
Whence = Callable[[Victim, int], tuple[str, str]]


def another_site(victim: Victim, port: int) -> tuple[str, str]:
    return f"http://attacker.example:{port}/", victim.url


def another_port(victim: Victim, port: int) -> tuple[str, str]:
    """As Airflow's pages have: to a browser it is the same site."""
    return f"http://127.0.0.1:{port}/", victim.url


def rebound_name(victim: Victim, port: int) -> tuple[str, str]:
    """A name that led to the page's server and now leads here: to a browser, the same origin."""
    return f"http://attacker.example:{victim.port}/moto-api/config", ""


def report(victim: Victim, port: int) -> tuple[str, str]:
    """An object of a bucket, which the local cloud serves itself: the same origin."""
    return f"{victim.url}/{BUCKET}/{REPORT}", ""


@dataclass(frozen=True)
class Attack:
    """A script, and what it harms where nothing refuses the request of this path.

    Args:
        pages: whence it is possible.
    """

    path: str
    pages: tuple[Whence, ...]
    harms: set[str]
    script: str


STATE = "/moto-api/data.json"
RECORDED = {"recording"}


def _starting(script: str, *pages: Whence) -> Attack:
    return Attack(START, pages, RECORDED, script)


ATTACKS = {
    "an image starts the recorder": _starting(
        'return load("img", {src: target + START})', another_site, another_port
    ),
    "a script starts the recorder": _starting(
        'return load("script", {src: target + START})', another_site
    ),
    "a frame starts the recorder": _starting(
        'return load("iframe", {src: target + START})', another_site, report
    ),
    "a prefetch starts the recorder": _starting(
        'return load("link", {rel: "prefetch", href: target + START})', another_site
    ),
    "a link starts the recorder": _starting(
        'const link = Object.assign(document.createElement("a"), {href: target + START});'
        "document.body.append(link); setTimeout(() => link.click())",
        another_site,
        another_port,
    ),
    "a recording of the page's own is replayed": Attack(
        REPLAY,
        (another_site,),
        RECORDED | {"job definitions"},
        """
        const url = "http://any/v1/registerjobdefinition";
        const headers = {Authorization: authorization("batch")};
        const entry = {method: "POST", url, headers, body: DEFINITION, body_encoded: false};
        await send("/moto-api/recorder/upload-recording", JSON.stringify(entry));
        return load("img", {src: target + REPLAY});
        """,
    ),
    "a form resets everything": Attack(
        RESET,
        (another_site,),
        {"parameter", "report", "job definitions"},
        'return submit(RESET, "text/plain", {})',
    ),
    "a form replaces the report": Attack(
        f"/{BUCKET}",
        (another_site,),
        {"report"},
        f'return submit("/{BUCKET}", "multipart/form-data", {{key: "{REPORT}", file: "hostile"}})',
    ),
    "a fault begins": Attack(
        "/_faults", (another_site, rebound_name), {"faults"}, 'await send("/_faults", FAULT)'
    ),
    "all state is read": Attack(
        STATE, (another_site, rebound_name), {"read"}, f'return read("{STATE}")'
    ),
    "the report is read": Attack(
        f"/{BUCKET}/",
        (another_site,),
        {"read"},
        f'return read("/{BUCKET}/{REPORT}", {{cache: "no-store"}})',
    ),
    "the parameter is read": Attack(
        "/?Action=GetParameter",
        (rebound_name, report),
        {"read"},
        'return call("ssm", {Action: "GetParameter", Name: PARAMETER})',
    ),
    "the parameter is replaced": Attack(
        "/?Action=PutParameter",
        (another_site, another_port, rebound_name, report),
        {"parameter"},
        'const fields = {Name: PARAMETER, Value: "hostile", Type: "String", Overwrite: true};'
        'return call("ssm", {Action: "PutParameter", ...fields})',
    ),
    "a stack registers a job definition": Attack(
        "/?Action=CreateStack",
        (another_site, rebound_name),
        {"job definitions"},
        'const fields = {StackName: "s" + Date.now(), TemplateBody: TEMPLATE};'
        'return call("cloudformation", {Action: "CreateStack", ...fields})',
    ),
    "a job definition is registered": Attack(
        "/v1/registerjobdefinition",
        (rebound_name,),
        {"job definitions"},
        'const options = {headers: {Authorization: authorization("batch")}, body: DEFINITION};'
        'return read("/v1/registerjobdefinition", {method: "POST", ...options})',
    ),
}
