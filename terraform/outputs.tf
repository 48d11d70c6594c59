################################################################################
# What was made
################################################################################

output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads"
  value       = aws_ssm_parameter.airflow.name
}

output "bucket_name" {
  description = "Bucket of raw results, runs and reports"
  value       = module.storage.bucket_name
}

output "topic_arn" {
  description = "SNS topic of the alerts"
  value       = module.notifications.topic_arn
}

output "ecr_repository_url" {
  description = "Repository to push the job image to"
  value       = module.storage.ecr_repository_url
}

output "image" {
  description = "Image of the other job definitions"
  value       = local.images["cuda"]
}

output "cpu_image" {
  description = "Image of CPU targets' job definitions"
  value       = local.images["cpu"]
}

output "ami_ids" {
  description = "Machine image of each target"
  value       = module.batch.ami_ids
}

output "log_group_name" {
  description = "Log group of all jobs; streams' names begin with the target"
  value       = module.batch.log_group_name
}

output "targets" {
  description = "What Airflow is told of each target"
  value       = module.batch.targets
}

output "own_jobs" {
  description = "What Airflow is told of your own jobs"
  value       = merge({}, module.own_jobs[*].jobs...)
}

################################################################################
# What to type next
################################################################################

locals {
  submit_commands = {
    for name, target in module.batch.targets : name => join(" ", [
      "aws batch submit-job",
      "--region ${var.region}",
      "--job-name ${var.name}-manual",
      "--job-queue ${target.job_queue}",
      "--job-definition ${target.job_definition}",
      "--parameters suite=smoke",
    ])
  }
}

output "submit_gpu_job_command" {
  description = "Runs one job by hand, per GPU target"
  value       = { for name, command in local.submit_commands : name => command if module.batch.targets[name].device == "cuda" }
}

output "submit_cpu_job_command" {
  description = "Runs one job by hand, per CPU target"
  value       = { for name, command in local.submit_commands : name => command if module.batch.targets[name].device == "cpu" }
}

output "log_tail_command" {
  description = "Follows the logs of all jobs (AWS CLI 2)"
  value       = "aws logs tail ${module.batch.log_group_name} --region ${var.region} --since 1h --follow"
}

output "dashboard_url" {
  description = "CloudWatch dashboard"
  value       = module.monitoring.dashboard_url
}

output "athena_workgroup" {
  description = "Athena workgroup with the saved queries"
  value       = module.analytics.workgroup_name
}

output "airflow_policy_arns" {
  description = "Airflow's policies, run and watch"
  value       = module.airflow_access.policy_arns
}

output "airflow_role_arn" {
  description = "Role that airflow_principal_arns may assume"
  value       = module.airflow_access.role_arn
}

output "destroy_note" {
  description = "What to know before a destroy"
  value = (
    var.force_destroy
    ? "terraform destroy deletes all results in s3://${module.storage.bucket_name} and all images with the rest, for good."
    : "terraform destroy stops at s3://${module.storage.bucket_name} and the image repository while they hold anything. To delete all results and images too, apply once with -var force_destroy=true, and destroy with it."
  )
}
