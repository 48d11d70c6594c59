output "own_jobs" {
  description = "The jobs with all their fields"
  value       = var.own_jobs
}

output "jobs" {
  description = "What Airflow is told about your own jobs"
  value = {
    for name, job in var.own_jobs : name => merge(
      {
        command         = job.command
        job_definitions = { for definition in local.definitions : definition.target_name => aws_batch_job_definition.this["${name}/${definition.target_name}"].arn if definition.job_name == name }
        timeout_seconds = job.timeout_seconds
        attempts        = job.attempts
      },
      # What is not set is left out, for the room.
      length(job.parameters) == 0 ? {} : { parameters = job.parameters },
      { for key, value in { axis = job.axis, check = job.check, output = job.output, output_sha256 = job.output_sha256, schedule = job.schedule, commit = job.commit, branch = job.branch, label = job.label } : key => value if value != null },
      job.shell ? {} : { shell = false },
    )
  }
}

output "job_definition_arns" {
  description = "All definitions, as one ARN with a wildcard"
  value       = "arn:${data.aws_partition.current.partition}:batch:${data.aws_region.current.name}:${data.aws_caller_identity.current.account_id}:job-definition/${local.prefix}*"
}

output "role_arns" {
  description = "Roles of the jobs"
  value       = concat([aws_iam_role.execution.arn, aws_iam_role.none.arn], distinct([for job in values(var.own_jobs) : job.job_role_arn if job.job_role_arn != null]))
}

output "suites" {
  description = "Suites of the jobs' results"
  value       = [for name in keys(var.own_jobs) : "job-${name}"]
}
