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
  prefix             = "${var.name}-multi-node"
  environment_prefix = "${local.prefix}-"

  # Beside the series of the same instance type in the core stack, whose jobs have one machine.
  target = "${var.instance_type}-multi-node"

  node = {
    vcpus      = data.aws_ec2_instance_type.this.default_vcpus
    memory_mib = data.aws_ec2_instance_type.this.memory_size
    gpus       = sum(concat([0], [for gpu in data.aws_ec2_instance_type.this.gpus : gpu.count]))

    # 0 where every AMI has one that will do.
    least_driver = try(local.families.gpu_families[split(".", var.instance_type)[0]].least_driver, 0)

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

  file_system = merge(local.file_system_defaults, { for field, value in var.file_system : field => value if value != null })

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
  compute_environment_name_prefix = local.environment_prefix
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
# Watching, beside what the core stack does
################################################################################

module "monitoring" {
  source = "../../modules/monitoring"

  name                 = local.prefix
  topic_arn            = local.core.topic_arn
  event_log_group_name = local.core.events_log_group
  job_queue_arns       = [aws_batch_job_queue.this.arn]

  # A job that loses a node is not tried again: it is told as failed.
  notices = ["job_failed", "queue_blocked"]

  ecs_cluster_names            = { (var.instance_type) = regex("[^/]+$", aws_batch_compute_environment.this.ecs_cluster_arn) }
  compute_environment_prefixes = { (var.instance_type) = local.environment_prefix }

  # A run's jobs on more and more nodes may launch the largest number of them twice, if those of one job are
  # gone before the next. Nodes that never join ECS are launched again for as long as their job waits.
  launches_per_hour = max(4, 2 * var.most_nodes + 1)
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

  value = jsonencode(merge(
    # Left out elsewhere, for an Airflow of an earlier release.
    { for field, value in { given_ami = var.ami_id != null } : field => value if value },
    {
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
        storage_gib     = tonumber(local.file_system.storage_gib)
        throughput      = tonumber(local.file_system.throughput)
        version         = local.file_system.version
        subnet          = local.subnet_id
        security_group  = aws_security_group.file_system.id
        kms_key_arn     = local.file_system_key
        repository      = "s3://${local.core.bucket}/${local.file_system.prefix}"
        folder          = local.file_system.folder
        id_parameter    = aws_ssm_parameter.file_system.name
      }
    },
  ))
}
