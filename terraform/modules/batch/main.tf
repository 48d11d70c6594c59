data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.name

  purchases = {
    spot      = { type = "SPOT", allocation_strategy = "SPOT_PRICE_CAPACITY_OPTIMIZED" }
    on_demand = { type = "EC2", allocation_strategy = "BEST_FIT_PROGRESSIVE" }
  }

  # What a target's queue tries, in this order.
  purchases_tried = {
    spot_first = ["spot", "on_demand"]
    spot       = ["spot"]
    on_demand  = ["on_demand"]
  }

  compute_environments = merge([
    for name, target in local.targets : {
      for purchase in local.purchases_tried[target.purchasing] : "${name}/${purchase}" => { target = name, purchase = purchase }
    }
  ]...)

  compute_environment_prefixes = {
    for key, environment in local.compute_environments :
    key => "${var.name}-${local.targets[environment.target].cloud_name}-${replace(environment.purchase, "_", "-")}-"
  }

  # Spot's share of a target's instances: all that max_vcpus allows, unless it has a limit of its own.
  max_vcpus = {
    for key, environment in local.compute_environments : key => (
      environment.purchase == "spot"
      ? coalesce(local.targets[environment.target].spot_max_vcpus, local.targets[environment.target].max_vcpus)
      : local.targets[environment.target].max_vcpus
    )
  }

  # Beside each target's own queue one that tries On-Demand alone, where that makes a difference.
  queues = merge([
    for name, target in local.targets : merge(
      { (name) = { target = name, suffix = "", purchases = local.purchases_tried[target.purchasing] } },
      { for key in ["${name}/on_demand"] : key => { target = name, suffix = "-on-demand", purchases = ["on_demand"] } if target.purchasing == "spot_first" },
    )
  ]...)
}

################################################################################
# Logs
################################################################################

resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/batch/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

################################################################################
# Compute environments
################################################################################

# No service_role: only with Batch's service-linked role can an environment be changed in place.
# The provider learns of a new template's version or AMI during apply only, finds then that it can't
# change a SPOT_PRICE_CAPACITY_OPTIMIZED environment in place, and stops ("inconsistent final plan").
resource "terraform_data" "host" {
  for_each = local.compute_environments

  input = [aws_launch_template.this[each.value.target].latest_version, local.amis[each.value.target]]
}

resource "aws_batch_compute_environment" "this" {
  for_each = local.compute_environments

  # A prefix, because a successor has to exist before the queue lets go of its predecessor.
  compute_environment_name_prefix = local.compute_environment_prefixes[each.key]
  type                            = "MANAGED"

  compute_resources {
    type = local.purchases[each.value.purchase].type
    # To hold what waits, the progressive strategies may start one instance more than max_vcpus allows,
    # where some replicas would wait for others in vain. BEST_FIT on On-Demand never does.
    allocation_strategy = local.targets[each.value.target].sharing == null ? local.purchases[each.value.purchase].allocation_strategy : "BEST_FIT"

    # One type only: a queue of several would make each series a mix of machines.
    instance_type = [local.instances[each.value.target].type]

    min_vcpus     = 0
    desired_vcpus = 0
    max_vcpus     = local.max_vcpus[each.key]

    bid_percentage = each.value.purchase == "spot" ? local.targets[each.value.target].spot_bid_percentage : null

    instance_role      = aws_iam_instance_profile.this.arn
    subnets            = var.subnet_ids
    security_group_ids = var.security_group_ids

    # A numbered version: with $Latest a changed template would not reach a running environment.
    launch_template {
      launch_template_id = aws_launch_template.this[each.value.target].id
      version            = aws_launch_template.this[each.value.target].latest_version
    }

    ec2_configuration {
      image_type        = local.targets[each.value.target].image_type
      image_id_override = local.amis[each.value.target]
    }
  }

  # An environment with BEST_FIT is replaced, never updated.
  dynamic "update_policy" {
    for_each = local.targets[each.value.target].sharing == null ? [1] : []

    content {
      job_execution_timeout_minutes = 60
      terminate_jobs_on_update      = false
    }
  }

  tags = { Target = each.value.target }

  # The agent needs the policy to take itself off its cluster; without it destroy hangs in DELETING.
  # And one that starts before all of its policies are there may fail for want of them.
  depends_on = [aws_iam_role_policy.instance, aws_iam_role_policy_attachment.instance]

  lifecycle {
    create_before_destroy = true

    replace_triggered_by = [terraform_data.host[each.key]]

    # Batch sets it by load.
    ignore_changes = [compute_resources[0].desired_vcpus]

    precondition {
      condition     = local.max_vcpus[each.key] >= local.instances[each.value.target].vcpus
      error_message = "max_vcpus is ${local.max_vcpus[each.key]} in ${each.key}, but one ${local.instances[each.value.target].type} has ${local.instances[each.value.target].vcpus} vCPUs, so none would ever start. Set target_overrides[\"${each.value.target}\"].max_vcpus (or spot_max_vcpus) to at least that."
    }
  }
}

################################################################################
# Queues
################################################################################

resource "aws_batch_job_queue" "this" {
  for_each = local.queues

  name     = "${var.name}-${local.targets[each.value.target].cloud_name}${each.value.suffix}"
  state    = "ENABLED"
  priority = 1

  dynamic "compute_environment_order" {
    for_each = each.value.purchases

    content {
      order               = compute_environment_order.key + 1
      compute_environment = aws_batch_compute_environment.this["${each.value.target}/${compute_environment_order.value}"].arn
    }
  }

  # Batch itself would let such a job wait for ever.
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

  tags = { Target = each.value.target }
}

################################################################################
# Job definitions
################################################################################

locals {
  # Folders of the host that a job sees at the same path. An MPS client and the host's daemon meet in a
  # folder of pipes and in shared memory; of what ipcMode would share, which only ecsProperties know,
  # MPS needs no more.
  host_folders = {
    for name, target in local.targets : name => merge(
      target.instance_store_scratch ? { scratch = "/scratch" } : {},
      target.sharing != null ? { sharing = "/sharing" } : {},
      target.sharing == "mps" ? { mps-pipes = "/run/mps-ecs", shared-memory = "/dev/shm" } : {},
    )
  }

  retry_rules = [
    # The host went away, by Spot reclaim or failure: not the job's fault.
    { action = "RETRY", on_reason = null, on_status_reason = "Host EC2*" },

    # Nothing has run yet, and a registry's bad minute passes. A wrong tag fails as fast thrice.
    { action = "RETRY", on_reason = "CannotPullContainer*", on_status_reason = null },

    # Docker did not start the container in time: a disk that is still being read, not the job.
    { action = "RETRY", on_reason = "DockerTimeoutError*", on_status_reason = null },

    # Everything else would fail again.
    { action = "EXIT", on_reason = "*", on_status_reason = null },
  ]
}

resource "aws_batch_job_definition" "this" {
  for_each = local.targets

  name                  = "${var.name}-${each.value.cloud_name}"
  type                  = "container"
  platform_capabilities = ["EC2"]
  propagate_tags        = true

  # A DAG run that is under way goes on submitting the revision from before an apply.
  deregister_on_new_revision = false

  # Defaults, so that a bare `aws batch submit-job` works.
  parameters = {
    suite  = "smoke"
    dtype  = "suite"
    run_id = "manual"
    output = "s3://${var.bucket_name}/raw/manual/${each.key}/"
  }

  container_properties = jsonencode({
    image = each.value.device == "cpu" ? coalesce(var.cpu_image, var.image) : var.image

    command = concat(
      ["python", "-m", "batchmark_job", "run"],
      ["--suite", "Ref::suite", "--dtype", "Ref::dtype"],
      ["--device", each.value.device, "--threads", tostring(each.value.vcpus)],
      ["--run-id", "Ref::run_id", "--target", each.key, "--output", "Ref::output"],
      ["--metrics-namespace", var.metrics_namespace],
      each.value.allow_cpu_fallback ? ["--allow-cpu-fallback"] : [],
    )

    resourceRequirements = concat(
      [
        { type = "VCPU", value = tostring(each.value.vcpus) },
        { type = "MEMORY", value = tostring(each.value.memory_mib) },
      ],
      each.value.gpus > 0 ? [{ type = "GPU", value = tostring(each.value.gpus) }] : [],
    )

    # Batch tells a job its queue and attempt, but not its region. Libraries keep their caches below
    # HOME, which the image's user has none of.
    environment = concat(
      [
        { name = "AWS_DEFAULT_REGION", value = local.region },
        { name = "HOME", value = "/tmp" },
        { name = "BATCHMARK_ROOT_VOLUME", value = "gp3, ${each.value.volume_size_gib} GiB, ${var.volume_throughput_mib_s} MiB/s, ${var.volume_iops} IOPS" },
      ],
      each.value.instance_store_scratch ? [{ name = "SCRATCH_DIR", value = "/scratch" }] : [],
      each.value.sharing != null ? [
        # The default runtime gives the GPU to the containers that name it.
        { name = "NVIDIA_VISIBLE_DEVICES", value = "all" },
        { name = "BATCHMARK_SHARING_FOLDER", value = "/sharing" },
      ] : [],
      each.value.sharing == "mps" ? [{ name = "CUDA_MPS_PIPE_DIRECTORY", value = "/run/mps-ecs" }] : [],
    )

    jobRoleArn       = aws_iam_role.job[each.key].arn
    executionRoleArn = aws_iam_role.execution.arn

    # The image's own user, by number: an image of your own need not know it.
    user                   = "10001"
    privileged             = false
    readonlyRootFilesystem = each.value.readonly_root_filesystem

    linuxParameters = {
      # Process 1 of its own, so that SIGTERM reaches the job and it can write what it has measured.
      initProcessEnabled = true
      sharedMemorySize   = each.value.shared_memory_mib

      # Docker adds noexec unless told otherwise, and compiled kernels are loaded from their cache here.
      tmpfs = [{ containerPath = "/tmp", size = local.tmp_mib, mountOptions = ["rw", "exec", "nosuid", "nodev"] }]

      devices = each.value.map_nvidia_device ? [
        { hostPath = "/dev/nvidia0", containerPath = "/dev/nvidia0", permissions = ["READ", "WRITE", "MKNOD"] },
      ] : []
    }

    volumes     = [for name, path in local.host_folders[each.key] : { name = name, host = { sourcePath = path } }]
    mountPoints = [for name, path in local.host_folders[each.key] : { sourceVolume = name, containerPath = path, readOnly = false }]

    logConfiguration = {
      logDriver = "awslogs"
      options = {
        awslogs-group         = aws_cloudwatch_log_group.this.name
        awslogs-region        = local.region
        awslogs-stream-prefix = each.key

        # ECS's default became non-blocking on 25 June 2025: a full buffer drops lines, and metrics with them.
        mode = "blocking"
      }
    }
  })

  retry_strategy {
    attempts = each.value.attempts

    dynamic "evaluate_on_exit" {
      for_each = local.retry_rules

      content {
        action           = evaluate_on_exit.value.action
        on_reason        = evaluate_on_exit.value.on_reason
        on_status_reason = evaluate_on_exit.value.on_status_reason
      }
    }
  }

  timeout {
    attempt_duration_seconds = each.value.timeout_seconds
  }

  tags = { Target = each.key }

  lifecycle {
    precondition {
      condition     = each.value.vcpus <= local.instances[each.key].vcpus
      error_message = "${each.key} has ${local.instances[each.key].vcpus} vCPUs, and target_overrides asks for ${each.value.vcpus}: the job would never start. Ask for fewer, or use a larger type."
    }

    precondition {
      condition     = each.value.memory_mib <= local.instances[each.key].usable_memory_mib
      error_message = "${each.key} leaves about ${local.instances[each.key].usable_memory_mib} MiB of its memory to jobs, and target_overrides asks for ${each.value.memory_mib}: the job would never start. Ask for less, or use a larger type."
    }

    precondition {
      condition     = each.value.shared_memory_mib < each.value.memory_mib
      error_message = "shared_memory_mib of ${each.key} is ${each.value.shared_memory_mib}, but it is part of the job's memory of ${each.value.memory_mib} MiB. Ask for less shared memory."
    }

    precondition {
      condition     = !each.value.map_nvidia_device || (each.value.device == "cuda" && local.instances[each.key].gpus == 1)
      error_message = "map_nvidia_device is set for ${each.key}, a ${each.value.device} target on a machine with ${local.instances[each.key].gpus} GPU(s). It is for GPU targets with one: on a machine with several Batch may assign another GPU than the /dev/nvidia0 that would be mapped. Leave it out: the GPU request alone gives the job its devices."
    }

    precondition {
      condition     = each.value.device == "cpu" || each.value.sharing != null || (each.value.gpus >= 1 && each.value.gpus <= local.instances[each.key].gpus)
      error_message = "${each.key} has ${local.instances[each.key].gpus} GPU(s), and target_overrides asks for ${each.value.gpus}. Ask for 1 to ${local.instances[each.key].gpus}."
    }

    precondition {
      condition     = each.value.sharing == null || local.instances[each.key].gpus == 1
      error_message = "${each.key} shares a ${local.instances[each.key].type}, which has ${local.instances[each.key].gpus} GPUs. Jobs that ask for no GPU see all of an instance's, so its replicas would not be known to share one. Use a type with one GPU."
    }

    precondition {
      condition     = each.value.sharing == null || max(each.value.vcpus, 1) * local.instances[each.key].replicas <= local.instances[each.key].vcpus
      error_message = "max_replicas of ${each.key} is ${local.instances[each.key].replicas}, and a ${local.instances[each.key].type} has ${local.instances[each.key].vcpus} vCPUs: too few for as many jobs of ${max(each.value.vcpus, 1)} vCPU(s), so not all would start. Lower max_replicas, or use a larger type with one GPU."
    }

    precondition {
      condition     = each.value.sharing == null || each.value.memory_mib * local.instances[each.key].replicas <= local.instances[each.key].usable_memory_mib
      error_message = "max_replicas of ${each.key} is ${local.instances[each.key].replicas}, and a ${local.instances[each.key].type} leaves about ${local.instances[each.key].usable_memory_mib} MiB of its memory to jobs: too little for as many jobs of ${each.value.memory_mib} MiB. Ask for less memory in target_overrides, or lower max_replicas."
    }
  }
}
