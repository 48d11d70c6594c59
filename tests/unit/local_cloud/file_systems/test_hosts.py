"""What hosts mount, by their user data."""

import base64
from types import SimpleNamespace

import pytest
from moto.ssm.models import ssm_backends

from local_cloud.file_systems import hosts
from tests.stand_ins.moto_account import moto_client
from tests.unit.local_cloud.file_systems.conftest import ACCOUNT, REGION

PARAMETER = "/batchmark/file-system"
SCRIPT = f'#!/bin/bash\n  FILE_SYSTEM_PARAMETER="{PARAMETER}"\n'
MIME = f"""MIME-Version: 1.0
Content-Type: multipart/mixed; boundary="==BATCHMARK=="

--==BATCHMARK==
Content-Type: text/x-shellscript; charset="utf-8"

#!/bin/bash
echo first

--==BATCHMARK==
Content-Type: text/x-shellscript; charset="utf-8"

{SCRIPT}
--==BATCHMARK==--
"""


@pytest.fixture
def environment(account):
    """A compute environment whose hosts have this user data."""
    made = []

    def make(user_data, by="launchTemplateName", version=None):
        named = {"LaunchTemplateName": f"nodes-{len(made)}"}
        encoded = base64.b64encode(user_data.encode()).decode()
        template = account.ec2.create_launch_template(
            **named, LaunchTemplateData={"UserData": encoded}
        )["LaunchTemplate"]
        made.append(template["LaunchTemplateName"])
        name = template[by[0].upper() + by[1:]]
        return SimpleNamespace(
            arn=f"arn:aws:batch:{REGION}:{ACCOUNT}:compute-environment/nodes",
            compute_resources={"launchTemplate": {by: name, "version": version}},
        )

    yield make
    for name in made:
        account.ec2.delete_launch_template(LaunchTemplateName=name)


@pytest.fixture
def parameter(account):
    ssm = moto_client("ssm", region_name=REGION)
    yield lambda value: ssm.put_parameter(
        Name=PARAMETER, Value=value, Type="String", Overwrite=True
    )
    ssm_backends[ACCOUNT][REGION].reset()


@pytest.mark.parametrize("user_data", [SCRIPT, MIME])
@pytest.mark.parametrize("by", ["launchTemplateName", "launchTemplateId"])
def test_the_parameter_names_the_file_system(account, environment, parameter, user_data, by):
    made = account.available()
    parameter(made)
    assert hosts.mount(environment(user_data, by)) == account.folder(made)


def test_the_templates_version_counts(account, environment, parameter):
    parameter(account.available())
    nodes = environment(SCRIPT, version="1")
    name = nodes.compute_resources["launchTemplate"]["launchTemplateName"]
    data = {"UserData": base64.b64encode(b"#!/bin/bash\n").decode()}
    account.ec2.create_launch_template_version(LaunchTemplateName=name, LaunchTemplateData=data)
    assert hosts.mount(nodes) is not None
    nodes.compute_resources["launchTemplate"]["version"] = "$Latest"
    assert hosts.mount(nodes) is None


def test_nothing_is_mounted_without_a_template_or_its_line_or_where_the_parameter_says_none(
    environment, parameter
):
    assert hosts.mount(SimpleNamespace(compute_resources={})) is None
    line = SCRIPT[12:].strip()
    for user_data in ("#!/bin/bash\necho\n", f"# {line}", "", f"X_{line}"):
        assert hosts.mount(environment(user_data)) is None
    parameter("none")
    assert hosts.mount(environment(SCRIPT)) is None


def test_a_host_without_its_file_system_does_not_come_up(account, environment, parameter):
    nodes = environment(SCRIPT)
    with pytest.raises(hosts.HostError, match=f"parameter {PARAMETER}, .* does not exist"):
        hosts.mounted_file_system(nodes)
    parameter(f"fs-{'0' * 17}")
    with pytest.raises(hosts.HostError, match="is missing"):
        hosts.mounted_file_system(nodes)
    made = account.create()
    parameter(made)
    with pytest.raises(hosts.HostError, match="is CREATING"):
        hosts.mounted_file_system(nodes)
    account.wait()
    assert hosts.mounted_file_system(nodes) == made
    account.fsx.delete_file_system(FileSystemId=made)
    with pytest.raises(hosts.HostError, match="is DELETING"):
        hosts.mounted_file_system(nodes)
    nodes.compute_resources["launchTemplate"]["launchTemplateName"] = "none"
    with pytest.raises(hosts.HostError, match=r"launch template .* does not exist"):
        hosts.mounted_file_system(nodes)
