output "targets" {
  description = "Each target's device, type, resources and queues"
  value = {
    for name, target in local.targets : name => merge(
      {
        device          = target.device
        instance_type   = local.instances[name].type
        vcpus           = target.vcpus
        memory_mib      = target.memory_mib
        gpus            = target.gpus
        job_queue       = aws_batch_job_queue.this[name].arn
        job_definition  = aws_batch_job_definition.this[name].arn
        timeout_seconds = target.timeout_seconds
        attempts        = target.attempts

        # The queue's own where it buys nothing else; none where the target buys Spot alone.
        on_demand_queue = { spot_first = try(aws_batch_job_queue.this["${name}/on_demand"].arn, null), spot = null, on_demand = aws_batch_job_queue.this[name].arn }[target.purchasing]

        # By name, as a job is told its own: AWS_BATCH_CE_NAME.
        compute_environments = {
          for purchase in keys(local.purchases) : purchase => try(aws_batch_compute_environment.this["${name}/${purchase}"].compute_environment_name, null)
        }

        allow_cpu_fallback = target.allow_cpu_fallback
      },
      # Left out elsewhere, for an Airflow of an earlier release.
      { for field, value in { sharing = target.sharing, max_replicas = local.instances[name].replicas } : field => value if target.sharing != null },
      { for field, value in { given_ami = target.image_id != null } : field => value if value },
      { for field in ["capacity_reservation", "capacity_block"] : field => target[field] if target[field] != null },
    )
  }
}

output "requests" {
  description = "Each target's device, resources and sharing"
  value       = { for name, target in local.targets : name => { for field in ["device", "vcpus", "memory_mib", "gpus", "sharing"] : field => target[field] } }
}

output "job_queue_arns" {
  description = "All job queues"
  value       = values(aws_batch_job_queue.this)[*].arn
}

output "compute_environment_names" {
  description = "Compute environments' names, by target/purchase, such as g5.xlarge/spot"
  value       = { for key, environment in aws_batch_compute_environment.this : key => environment.compute_environment_name }
}

output "ami_ids" {
  description = "Machine image of each target"
  value       = local.amis
}

output "compute_environment_prefixes" {
  description = "Prefixes of these names"
  value       = local.compute_environment_prefixes
}

output "ecs_cluster_names" {
  description = "ECS clusters, by the same keys"
  value       = { for key, environment in aws_batch_compute_environment.this : key => regex("[^/]+$", environment.ecs_cluster_arn) }
}

output "log_group_name" {
  description = "Log group of all jobs"
  value       = aws_cloudwatch_log_group.this.name
}

output "job_role_arns" {
  description = "Job roles, as one ARN with a wildcard"
  value       = "arn:${local.partition}:iam::${local.account_id}:role${var.iam_path}${var.name}-job-*"
}

output "execution_role_arn" {
  description = "Role that starts the job's container"
  value       = aws_iam_role.execution.arn
}

output "instance_role_arn" {
  description = "Role of the instances"
  value       = aws_iam_role.instance.arn
}

output "instance_profile_arn" {
  description = "Profile of the instances' role"
  value       = aws_iam_instance_profile.this.arn
}

output "ecr_repository_arns" {
  description = "Repositories that images are pulled from"
  value       = local.repository_arns
}

output "pull_and_log_policy" {
  description = "What an execution role needs, as JSON"
  value       = data.aws_iam_policy_document.pull_and_log.json
}

output "task_trust_policy" {
  description = "Who may act as a job role, as JSON"
  value       = data.aws_iam_policy_document.task_trust.json
}

output "retry_rules" {
  description = "When jobs are retried; the first match counts"
  value       = local.retry_rules
}
