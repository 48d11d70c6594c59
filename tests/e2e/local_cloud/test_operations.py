"""Every operation of Batch's API: what the local cloud lacks, it says as AWS says an error."""

import pytest
from botocore.exceptions import ClientError
from botocore.session import Session

BATCH = Session().get_service_model("batch")


def made_up(shape):
    """The least that botocore sends: what is required, and nothing that there is."""
    if shape.type_name == "structure":
        members = shape.members.items()
        return {name: made_up(member) for name, member in members if name in shape.required_members}
    if shape.type_name == "list":
        return [made_up(shape.member)] * shape.metadata.get("min", 0)
    if shape.type_name == "map":
        return {}
    if shape.type_name in ("integer", "long", "double", "float"):
        return 1
    return False if shape.type_name == "boolean" else [*getattr(shape, "enum", []), "nothing"][0]


@pytest.mark.parametrize("name", BATCH.operation_names)
def test_it_is_served_or_refused_by_name(cloud, name):
    shape = BATCH.operation_model(name).input_shape
    try:
        cloud.batch._make_api_call(name, made_up(shape) if shape else {})
    except ClientError as error:
        answer = error.response
        assert answer["Error"]["Code"] == "ClientException", answer
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 400
        assert answer["Error"]["Message"]
