output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads"
  value       = aws_ssm_parameter.airflow.name
}

output "file_system_parameter_name" {
  description = "SSM parameter of the file system's id"
  value       = aws_ssm_parameter.file_system.name
}

output "target" {
  description = "Target that the nodes' results name"
  value       = local.target
}

output "subnet" {
  description = "Where nodes and file system lie"
  value       = { id = local.subnet_id, zone = local.zone }
}

output "ami_id" {
  description = "Machine image of the nodes"
  value       = local.ami
}

output "most_vcpus" {
  description = "vCPUs of all nodes together"
  value       = var.most_nodes * local.node.vcpus
}

output "alarm_names" {
  description = "Alarms on nodes without a job, or launched over and over"
  value       = concat(values(module.monitoring.alarm_names), values(module.monitoring.launch_alarm_names))
}

output "airflow_policy_arn" {
  description = "Policy for Airflow's role, beside the core stack's"
  value       = aws_iam_policy.airflow.arn
}

output "submit_command" {
  description = "Runs one job by hand on two nodes, with a new token"
  value = join(" ", [
    "aws batch submit-job",
    "--region ${var.region}",
    "--job-name ${local.prefix}-manual",
    "--job-queue ${aws_batch_job_queue.this.arn}",
    "--job-definition ${aws_batch_job_definition.this.arn}",
    "--timeout attemptDurationSeconds=${var.timeout_seconds}",
    "--node-overrides '${jsonencode({
      numNodes = min(2, var.most_nodes)
      nodePropertyOverrides = [{
        targetNodes        = "0:"
        containerOverrides = { environment = [{ name = "BATCHMARK_NODES_TOKEN", value = "'$(openssl rand -hex 32)'" }] }
      }]
    })}'",
  ])
}
