output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads as a variable"
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
  description = "Image that the job definitions run"
  value       = local.image
}

output "log_group_name" {
  description = "CloudWatch log group of all jobs; a log stream's name starts with its target"
  value       = module.batch.log_group_name
}

output "targets" {
  description = "What Airflow is told about each target"
  value       = module.batch.targets
}

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
  description = "For each GPU target, the command that runs one job by hand"
  value       = { for name, command in local.submit_commands : name => command if contains(var.gpu_instance_types, name) }
}

output "submit_cpu_job_command" {
  description = "For each CPU target, the command that runs one job by hand"
  value       = { for name, command in local.submit_commands : name => command if contains(var.cpu_instance_types, name) }
}
