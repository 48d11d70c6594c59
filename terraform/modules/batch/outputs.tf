output "targets" {
  description = "Per target: device, instance type, what a job asks for, and the ARNs to run it with"
  value = {
    for name, target in local.targets : name => {
      device          = target.device
      instance_type   = name
      vcpus           = target.vcpus
      memory_mib      = target.memory_mib
      gpus            = target.gpus
      job_queue       = aws_batch_job_queue.this[name].arn
      job_definition  = aws_batch_job_definition.this[name].arn
      timeout_seconds = target.timeout_seconds
      attempts        = target.attempts

      compute_environments = {
        for purchase in keys(local.purchases) : purchase => aws_batch_compute_environment.this["${name}/${purchase}"].arn
      }

      allow_cpu_fallback = target.allow_cpu_fallback
    }
  }
}

output "log_group_name" {
  description = "Log group of all jobs"
  value       = aws_cloudwatch_log_group.this.name
}

output "job_role_arn" {
  description = "Role that the job's code acts as"
  value       = aws_iam_role.job.arn
}

output "execution_role_arn" {
  description = "Role that starts the job's container"
  value       = aws_iam_role.execution.arn
}

output "instance_role_arn" {
  description = "Role of the instances"
  value       = aws_iam_role.instance.arn
}
