"""File systems of Lustre, by calls of FSx, and their links to S3."""


class Lustre:
    """In the first subnet that there is."""

    def __init__(self, client):
        self.fsx, self.ec2 = client("fsx"), client("ec2")
        subnet = self.ec2.describe_subnets()["Subnets"][0]
        self.subnet, self.vpc = subnet["SubnetId"], subnet["VpcId"]

    def request(self, deployment="SCRATCH_2", capacity=1200, lustre=None, **fields):
        request = {
            "FileSystemType": "LUSTRE",
            "StorageCapacity": capacity,
            "SubnetIds": [self.subnet],
            "FileSystemTypeVersion": "2.15",
            "LustreConfiguration": {"DeploymentType": deployment, **(lustre or {})},
            **fields,
        }
        return {name: value for name, value in request.items() if value is not None}

    def create(self, *arguments, **fields):
        """The id of a file system that is being created."""
        answer = self.fsx.create_file_system(**self.request(*arguments, **fields))
        made = answer["FileSystem"]
        assert made["Lifecycle"] == "CREATING"
        return made["FileSystemId"]

    def describe(self, file_system_id):
        (found,) = self.fsx.describe_file_systems(FileSystemIds=[file_system_id])["FileSystems"]
        return found

    def lifecycle(self, file_system_id):
        return self.describe(file_system_id)["Lifecycle"]

    def associate(self, file_system_id, path="/images", repository="s3://images/", **fields):
        return self.fsx.create_data_repository_association(
            FileSystemId=file_system_id,
            FileSystemPath=path,
            DataRepositoryPath=repository,
            **fields,
        )["Association"]["AssociationId"]

    def association(self, file_system_id):
        listed = self.fsx.describe_data_repository_associations(Filters=_of(file_system_id))
        (found,) = listed["Associations"]
        return found

    def tasks(self, file_system_id):
        """Imports of names from S3."""
        listed = self.fsx.describe_data_repository_tasks(Filters=_of(file_system_id))
        return listed["DataRepositoryTasks"]


def _of(file_system_id):
    return [{"Name": "file-system-id", "Values": [file_system_id]}]
