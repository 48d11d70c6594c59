"""Jobs that share an instance: they meet in a folder of it, and see one GPU."""

# Each waits until all are there, in the folder that the array job is named after.
SCRIPT = """
set -eu
folder=$SHARING_FOLDER/${AWS_BATCH_JOB_ID%:*}
mkdir -p $folder
touch $folder/$AWS_BATCH_JOB_ARRAY_INDEX
while [ $(ls $folder | wc -l) -lt $AWS_BATCH_JOB_ARRAY_SIZE ]; do sleep 0.02; done
echo $folder gpu $NVIDIA_VISIBLE_DEVICES
"""
TIMEOUT = {"attemptDurationSeconds": 30}
CONTAINER = {
    "environment": [
        {"name": "SHARING_FOLDER", "value": "/sharing"},
        {"name": "NVIDIA_VISIBLE_DEVICES", "value": "all"},
    ],
    "volumes": [{"name": "sharing", "host": {"sourcePath": "/srv/sharing"}}],
    "mountPoints": [{"sourceVolume": "sharing", "containerPath": "/sharing"}],
}


def test_more_jobs_than_the_pool_has_vcpus_meet_on_one_instance(cloud):
    shared = cloud.create_compute_environment(
        "shared-instance", 8, instanceTypes=["g4dn.2xlarge"], allocationStrategy="BEST_FIT"
    )
    queue = cloud.create_queue(compute_environment=shared)
    definition = cloud.define(["sh", "-c", SCRIPT], container=CONTAINER)
    size = {"size": 6}
    parent = cloud.submit(definition, queue=queue, arrayProperties=size, timeout=TIMEOUT)
    assert cloud.finish(parent)["status"] == "SUCCEEDED"
    ((line,),) = {tuple(cloud.output(f"{parent}:{index}")) for index in range(6)}
    folder, gpu = line.split(" gpu ")
    assert folder.endswith(f"/shared-instance/srv/sharing/{parent}")
    assert gpu in ("0", "1")
