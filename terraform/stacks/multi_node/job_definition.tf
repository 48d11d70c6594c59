locals {
  # Folders of the host that a job sees at the same path.
  host_folders = { fsx = local.mount_point, scratch = local.scratch }

  container = {
    image        = local.image
    instanceType = var.instance_type

    command = concat(
      ["python", "-m", "batchmark_job", "run"],
      ["--suite", "Ref::suite", "--dtype", "Ref::dtype"],
      ["--device", local.device, "--threads", tostring(local.vcpus)],
      ["--run-id", "Ref::run_id", "--target", local.target, "--output", "Ref::output"],
      ["--metrics-namespace", local.metrics_namespace],
      var.allow_cpu_fallback ? ["--allow-cpu-fallback"] : [],
    )

    resourceRequirements = concat(
      [
        { type = "VCPU", value = tostring(local.vcpus) },
        { type = "MEMORY", value = tostring(local.memory_mib) },
      ],
      local.node.gpus > 0 ? [{ type = "GPU", value = tostring(local.node.gpus) }] : [],
    )

    environment = [
      { name = "AWS_DEFAULT_REGION", value = var.region },
      { name = "HOME", value = "/tmp" },
      { name = "BATCHMARK_ROOT_VOLUME", value = "gp3, ${var.volume_size_gib} GiB, ${local.volume_throughput_mib_s} MiB/s, ${local.volume_iops} IOPS" },
      { name = "BATCHMARK_FILES", value = local.files },
      { name = "JOB_DIR", value = local.files }, # what training programs of others read
      { name = "SCRATCH_DIR", value = local.scratch },
      # Not the loopback, nor the link to the ECS agent, which no other node can reach.
      { name = "NCCL_SOCKET_IFNAME", value = "^lo,ecs-eth" },
      { name = "NCCL_DEBUG", value = "WARN" },
    ]

    jobRoleArn       = aws_iam_role.job.arn
    executionRoleArn = aws_iam_role.execution.arn

    user                   = "10001"
    privileged             = false
    readonlyRootFilesystem = true

    # What is shared with a GPU has to stay in memory.
    ulimits = [
      { name = "memlock", softLimit = -1, hardLimit = -1 },
      { name = "stack", softLimit = 67108864, hardLimit = 67108864 },
    ]

    linuxParameters = {
      initProcessEnabled = true
      sharedMemorySize   = local.shared_memory_mib
      tmpfs              = [{ containerPath = "/tmp", size = local.tmp_mib, mountOptions = ["rw", "exec", "nosuid", "nodev"] }]
    }

    volumes     = [for name, path in local.host_folders : { name = name, host = { sourcePath = path } }]
    mountPoints = [for name, path in local.host_folders : { sourceVolume = name, containerPath = path, readOnly = false }]

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = local.core.log_group
        awslogs-region        = var.region
        awslogs-stream-prefix = local.target

        # ECS's default became non-blocking on 25 June 2025: a full buffer drops lines, and metrics with them.
        mode = "blocking"
      }
    }
  }
}

resource "aws_batch_job_definition" "this" {
  name                  = local.prefix
  type                  = "multinode"
  platform_capabilities = ["EC2"]
  propagate_tags        = true

  # A DAG run that is under way goes on submitting the revision from before an apply.
  deregister_on_new_revision = false

  # Defaults, so that `aws batch submit-job` needs the nodes' token alone (see the output submit_command).
  parameters = {
    suite  = "scaling"
    dtype  = "suite"
    run_id = "manual"
    output = "s3://${local.core.bucket}/raw/manual/${local.target}/"
  }

  node_properties = jsonencode({
    mainNode = 0
    numNodes = min(2, var.most_nodes)

    # An open end: else a job can't ask for another number of nodes.
    nodeRangeProperties = [{ targetNodes = "0:", container = local.container }]
  })

  # A second attempt would cost as much as the first, and find the same nodes and files.
  retry_strategy {
    attempts = 1
  }

  timeout {
    attempt_duration_seconds = var.timeout_seconds
  }

  tags = { Target = local.target }

  lifecycle {
    precondition {
      condition     = local.vcpus <= local.node.vcpus
      error_message = "${var.instance_type} has ${local.node.vcpus} vCPUs, and job_vcpus asks for ${local.vcpus}: a job would never start. Ask for fewer, or use a larger type."
    }

    precondition {
      condition     = local.memory_mib <= local.node.usable_memory_mib
      error_message = "${var.instance_type} leaves about ${local.node.usable_memory_mib} MiB of its memory to jobs, and job_memory_mib asks for ${local.memory_mib}: a job would never start. Ask for less, or use a larger type."
    }

    precondition {
      condition     = local.shared_memory_mib < local.memory_mib
      error_message = "shared_memory_mib is ${local.shared_memory_mib}, but it is part of the job's memory of ${local.memory_mib} MiB. Ask for less shared memory."
    }

    precondition {
      condition     = !var.allow_cpu_fallback || local.device == "cuda"
      error_message = "allow_cpu_fallback is set for ${var.instance_type}, which has no GPU; only a GPU type can fall back to its CPU. Leave it out."
    }
  }
}
