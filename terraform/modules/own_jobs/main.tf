data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  # By job/target.
  definitions = merge([
    for job_name, job in var.own_jobs : {
      for target_name, target in local.alone : "${job_name}/${target_name}" => merge(job, {
        job_name    = job_name
        target_name = target_name
        cloud_name  = replace(target_name, ".", "-")
        image       = job.image != null ? job.image : job.images[target.device]

        # By default all that a job of the target has.
        vcpus      = coalesce(job.vcpus, target.vcpus)
        memory_mib = coalesce(job.memory_mib, target.memory_mib)
        gpus       = target.device == "cuda" ? coalesce(job.gpus, target.gpus) : 0
      }) if length(job.targets) == 0 || contains(job.targets, target_name)
    }
  ]...)

  # No installation's name has an underscore, so no other's definitions begin with it.
  prefix = "${var.name}_job_"
}

resource "aws_batch_job_definition" "this" {
  for_each = local.definitions

  name                  = "${local.prefix}${each.value.job_name}_${each.value.cloud_name}"
  type                  = "container"
  platform_capabilities = ["EC2"]
  propagate_tags        = true

  # A DAG run that is under way goes on submitting the revision from before an apply.
  deregister_on_new_revision = false

  # With the first size, so that a bare `aws batch submit-job` works.
  parameters = merge({ for axis in each.value.axis[*] : axis.parameter => tostring(axis.sizes[0]) }, each.value.parameters)

  container_properties = jsonencode(merge(
    {
      image   = each.value.image
      command = each.value.command

      resourceRequirements = concat(
        [
          { type = "VCPU", value = tostring(each.value.vcpus) },
          { type = "MEMORY", value = tostring(each.value.memory_mib) },
        ],
        each.value.gpus > 0 ? [{ type = "GPU", value = tostring(each.value.gpus) }] : [],
      )

      environment = [for name, value in each.value.environment : { name = name, value = value }]
      secrets     = [for name, arn in each.value.secrets : { name = name, valueFrom = arn }]

      jobRoleArn             = coalesce(each.value.job_role_arn, aws_iam_role.none.arn)
      executionRoleArn       = aws_iam_role.execution.arn
      privileged             = false
      readonlyRootFilesystem = each.value.readonly_root_filesystem

      linuxParameters = {
        # Process 1 of its own, so that SIGTERM reaches the job.
        initProcessEnabled = true

        # Docker's 64 MiB stop data loaders. Part of the job's memory, and taken only where used.
        sharedMemorySize = min(8192, floor(each.value.memory_mib / 2))

        tmpfs = each.value.readonly_root_filesystem ? [
          { containerPath = "/tmp", size = min(512, floor(each.value.memory_mib / 4)), mountOptions = ["rw", "exec", "nosuid", "nodev"] },
        ] : []
      }

      volumes     = [for index, mount in each.value.mounts : { name = "mount-${index}", host = { sourcePath = mount.source } }]
      mountPoints = [for index, mount in each.value.mounts : { sourceVolume = "mount-${index}", containerPath = mount.path, readOnly = mount.read_only }]

      logConfiguration = {
        logDriver = "awslogs"
        options = {
          awslogs-group         = var.log_group_name
          awslogs-region        = data.aws_region.current.name
          awslogs-stream-prefix = each.value.target_name

          # ECS's default became non-blocking on 25 June 2025: a full buffer drops lines, and metrics with them.
          mode = "blocking"
        }
      }
    },
    # The image's own user, unless told otherwise.
    each.value.user == null ? {} : { user = each.value.user },
  ))

  retry_strategy {
    attempts = each.value.attempts

    dynamic "evaluate_on_exit" {
      for_each = var.retry_rules

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

  tags = { Target = each.value.target_name }

  lifecycle {
    precondition {
      condition     = each.value.vcpus <= local.alone[each.value.target_name].vcpus
      error_message = "${each.value.job_name} asks for ${each.value.vcpus} vCPUs, and a job of ${each.value.target_name} has ${local.alone[each.value.target_name].vcpus}: it might never start. Ask for fewer, leave the target out of its targets, or raise target_overrides[\"${each.value.target_name}\"].vcpus."
    }

    precondition {
      condition     = each.value.memory_mib <= local.alone[each.value.target_name].memory_mib
      error_message = "${each.value.job_name} asks for ${each.value.memory_mib} MiB of memory, and a job of ${each.value.target_name} has ${local.alone[each.value.target_name].memory_mib}: it might never start. Ask for less, leave the target out of its targets, or raise target_overrides[\"${each.value.target_name}\"].memory_mib."
    }

    precondition {
      condition     = each.value.gpus <= local.alone[each.value.target_name].gpus
      error_message = "${each.value.job_name} asks for ${each.value.gpus} GPUs, and a job of ${each.value.target_name} has ${local.alone[each.value.target_name].gpus}: it would never start. Ask for fewer, or leave the target out of its targets."
    }
  }
}
