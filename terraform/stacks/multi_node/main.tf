data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

# What the core stack published.
data "aws_ssm_parameter" "core" {
  name = "${var.airflow_variables_prefix}/batchmark"

  lifecycle {
    postcondition {
      condition     = try(jsondecode(self.insecure_value).schema_version, null) == 1
      error_message = "${self.name} has schema_version ${try(jsondecode(self.insecure_value).schema_version, "none")}, and this stack reads 1. Apply the core stack and this one from the same commit."
    }

    postcondition {
      condition     = try(jsondecode(self.insecure_value).name, null) == var.name
      error_message = "${self.name} belongs to installation \"${try(jsondecode(self.insecure_value).name, "none")}\", and name is \"${var.name}\". Give the name and the airflow_variables_prefix of the same installation."
    }
  }
}

data "aws_ecr_repository" "job" {
  name = "${var.name}-job"
}

data "aws_ec2_instance_type" "this" {
  instance_type = var.instance_type

  lifecycle {
    postcondition {
      condition     = contains(self.supported_architectures, "x86_64")
      error_message = "${var.instance_type} is an Arm machine, and the job image is built for x86_64. Use an Intel or AMD type instead, such as g5.12xlarge."
    }

    postcondition {
      condition     = alltrue([for gpu in self.gpus : gpu.manufacturer == "NVIDIA"])
      error_message = "${var.instance_type} has a GPU of ${join(", ", [for gpu in self.gpus : gpu.manufacturer])}, and the job image knows NVIDIA's alone. Use a type that has one, such as g5.12xlarge, or none, such as c5.2xlarge."
    }

    postcondition {
      condition     = !var.placement_group || contains(self.supported_placement_strategies, "cluster")
      error_message = "${var.instance_type} can't be in a cluster placement group. Use a type that can, such as g5.12xlarge, or set placement_group = false."
    }
  }
}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  dns_suffix = data.aws_partition.current.dns_suffix

  # The last says what is ours, as in the core stack.
  tags = merge({ Project = var.name, ManagedBy = "terraform" }, var.tags, { "batchmark:installation" = var.name })

  core              = jsondecode(data.aws_ssm_parameter.core.insecure_value)
  metrics_namespace = "Batchmark/${var.name}"
  image             = join(startswith(var.image_tag, "sha256:") ? "@" : ":", [data.aws_ecr_repository.job.repository_url, var.image_tag])

  # Of all that is made here.
  prefix = "${var.name}-multi-node"

  # Beside the series of the same instance type in the core stack, whose jobs have one machine.
  target = "${var.instance_type}-multi-node"

  node = {
    vcpus      = data.aws_ec2_instance_type.this.default_vcpus
    memory_mib = data.aws_ec2_instance_type.this.memory_size
    gpus       = sum(concat([0], [for gpu in data.aws_ec2_instance_type.this.gpus : gpu.count]))

    # The most that ECS is left with, a little above what the default asks for.
    usable_memory_mib = floor(data.aws_ec2_instance_type.this.memory_size * 15 / 16)
  }

  device = local.node.gpus > 0 ? "cuda" : "cpu"

  # Kernel, Docker and the ECS agent need the rest: a job that asks for all of it never starts.
  vcpus      = coalesce(var.job_vcpus, local.node.vcpus)
  memory_mib = coalesce(var.job_memory_mib, floor(local.node.memory_mib * 7 / 8))

  # NCCL and the processes of one node exchange their data there: as much as in the core stack.
  shared_memory_mib = coalesce(
    var.shared_memory_mib,
    local.device == "cpu" ? min(1024, floor(local.memory_mib / 2)) : min(max(8192, 4096 * local.node.gpus), floor(local.memory_mib / 2)),
  )

  file_system = merge(local.file_system_defaults, var.file_system)

  mount_point = "/fsx"
  files       = "${local.mount_point}${local.file_system.folder}"
  scratch     = "/scratch"
  tmp_mib     = 512

  volume_throughput_mib_s = 500
  volume_iops             = 3000
}

################################################################################
# Compute environment and queue
################################################################################

# No service_role, and a new environment for a new template or image, as in the core stack.
resource "terraform_data" "host" {
  input = [aws_launch_template.this.latest_version, local.ami]
}

# One alone: a multi-node job that finds no capacity in the first of a queue's environments blocks the
# queue, even where a later one has some.
resource "aws_batch_compute_environment" "this" {
  compute_environment_name_prefix = "${local.prefix}-"
  type                            = "MANAGED"

  compute_resources {
    type                = "EC2"
    allocation_strategy = "BEST_FIT_PROGRESSIVE"

    instance_type = [var.instance_type]

    min_vcpus     = 0
    desired_vcpus = 0
    max_vcpus     = var.most_nodes * local.node.vcpus

    instance_role      = aws_iam_instance_profile.this.arn
    subnets            = [local.subnet_id]
    security_group_ids = concat([aws_security_group.nodes.id], sort(var.security_group_ids))
    placement_group    = one(aws_placement_group.this[*].name)

    # A numbered version: with $Latest a changed template would not reach a running environment.
    launch_template {
      launch_template_id = aws_launch_template.this.id
      version            = aws_launch_template.this.latest_version
    }

    ec2_configuration {
      image_type        = local.image_type
      image_id_override = local.ami
    }
  }

  update_policy {
    job_execution_timeout_minutes = 60
    terminate_jobs_on_update      = false
  }

  tags = { Target = local.target }

  # The agent needs the policy to take itself off its cluster; without it destroy hangs in DELETING.
  depends_on = [
    aws_iam_role_policy.instance,
    aws_iam_role_policy_attachment.instance,
    aws_vpc_security_group_egress_rule.https,
    aws_vpc_security_group_egress_rule.lustre,
    aws_vpc_security_group_egress_rule.nodes,
    aws_vpc_security_group_ingress_rule.lustre,
    aws_vpc_security_group_ingress_rule.nodes,
  ]

  lifecycle {
    create_before_destroy = true

    replace_triggered_by = [terraform_data.host]

    # Batch sets it by load.
    ignore_changes = [compute_resources[0].desired_vcpus]

    precondition {
      condition     = var.endpoints_only || local.has_way_out
      error_message = "Subnet ${local.subnet_id} in ${local.zone} has no way out for containers: its route table ${local.route_table_id} sends 0.0.0.0/0 to ${local.default_gateway}. Those of a multi-node job have no public address, so an internet gateway is none. Set enable_nat_gateway = true in the core stack and apply it, name a private subnet with a NAT gateway in subnet_id, or set endpoints_only = true where the VPC has endpoints of ${join(", ", keys(local.endpoints))}."
    }

    precondition {
      condition     = contains(local.zones_with_type, local.zone)
      error_message = "${var.instance_type} is not offered in ${local.zone}, where subnet ${local.subnet_id} lies, but in ${join(", ", local.zones_with_type)}. Name one of these in zone, a subnet there in subnet_id, or another instance_type."
    }
  }
}

resource "aws_batch_job_queue" "this" {
  name     = local.prefix
  state    = "ENABLED"
  priority = 1

  compute_environment_order {
    order               = 1
    compute_environment = aws_batch_compute_environment.this.arn
  }

  # Batch itself would let such a job wait for ever, and block the queue.
  dynamic "job_state_time_limit_action" {
    for_each = [
      "CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
      "MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
      "MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
      "MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    ]

    content {
      state            = "RUNNABLE"
      action           = "CANCEL"
      reason           = job_state_time_limit_action.value
      max_time_seconds = var.runnable_timeout_seconds
    }
  }

  tags = { Target = local.target }
}

################################################################################
# Job definition
################################################################################

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

################################################################################
# Job states, beside those of the core stack's queues
################################################################################

resource "aws_cloudwatch_event_rule" "job_states" {
  name        = "${var.name}-job-states-multi-node"
  description = "Logs each change of a multi-node job's state, and when one blocks the queue"

  event_pattern = jsonencode(jsondecode(templatefile("${path.module}/../../modules/monitoring/event_patterns/job_states.json.tftpl", {
    job_queues = jsonencode([aws_batch_job_queue.this.arn])
  })))
}

resource "aws_cloudwatch_event_target" "job_states" {
  rule      = aws_cloudwatch_event_rule.job_states.name
  target_id = "log-group"
  arn       = "arn:${local.partition}:logs:${var.region}:${local.account_id}:log-group:${local.core.events_log_group}"
}

################################################################################
# What Airflow is told
################################################################################

# The DAG writes the id of the file system that it has stood up, and nodes read it when they boot.
resource "aws_ssm_parameter" "file_system" {
  name        = "${var.airflow_variables_prefix}/batchmark_multi_node_file_system"
  description = "The file system that ${local.prefix} nodes mount when they boot; none for no file system"
  type        = "String"
  value       = "none"

  lifecycle {
    ignore_changes = [value]
  }
}

resource "aws_ssm_parameter" "airflow" {
  name        = "${var.airflow_variables_prefix}/batchmark_multi_node"
  description = "Airflow variable batchmark_multi_node: where multi-node jobs run, and the file system they read"
  type        = "String"

  value = jsonencode({
    schema_version      = 1
    name                = var.name
    region              = var.region
    target              = local.target
    device              = local.device
    instance_type       = var.instance_type
    vcpus               = local.node.vcpus
    gpus                = local.node.gpus
    most_nodes          = var.most_nodes
    job_queue           = aws_batch_job_queue.this.arn
    job_definition      = aws_batch_job_definition.this.arn
    compute_environment = aws_batch_compute_environment.this.compute_environment_name
    timeout_seconds     = var.timeout_seconds
    allow_cpu_fallback  = var.allow_cpu_fallback
    mount_point         = local.mount_point
    scratch             = local.scratch

    file_system = {
      deployment_type = local.file_system.deployment_type
      storage_gib     = local.file_system.storage_gib
      throughput      = local.file_system.throughput
      version         = local.file_system.version
      subnet          = local.subnet_id
      security_group  = aws_security_group.file_system.id
      kms_key_arn     = local.file_system_key
      repository      = "s3://${local.core.bucket}/${local.file_system.prefix}"
      folder          = local.file_system.folder
      id_parameter    = aws_ssm_parameter.file_system.name
    }
  })
}
