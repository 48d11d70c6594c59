output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads as a variable"
  value       = aws_ssm_parameter.airflow.name
}

output "file_system_parameter_name" {
  description = "SSM parameter that holds the id of the file system while there is one"
  value       = aws_ssm_parameter.file_system.name
}

output "target" {
  description = "Name that the nodes' results have, beside the core stack's targets"
  value       = local.target
}

output "subnet" {
  description = "Where nodes and file system lie"
  value       = { id = local.subnet_id, zone = local.zone }
}

output "ami_id" {
  description = "Machine image of the nodes; ami_release renews it"
  value       = local.ami
}

output "most_vcpus" {
  description = "vCPUs of all nodes together, for which the On-Demand quota of the type's family has to suffice"
  value       = var.most_nodes * local.node.vcpus
}

output "airflow_policy_arn" {
  description = "Policy of the role that Airflow runs with, beside those of the core stack"
  value       = aws_iam_policy.airflow.arn
}

output "submit_command" {
  description = "Runs one job by hand, on two nodes, with a new secret by which they know each other"
  value = join(" ", [
    "aws batch submit-job",
    "--region ${var.region}",
    "--job-name ${local.prefix}-manual",
    "--job-queue ${aws_batch_job_queue.this.arn}",
    "--job-definition ${aws_batch_job_definition.this.arn}",
    "--node-overrides '${jsonencode({
      numNodes = min(2, var.most_nodes)
      nodePropertyOverrides = [{
        targetNodes        = "0:"
        containerOverrides = { environment = [{ name = "BATCHMARK_NODES_TOKEN", value = "'$(openssl rand -hex 32)'" }] }
      }]
    })}'",
  ])
}
