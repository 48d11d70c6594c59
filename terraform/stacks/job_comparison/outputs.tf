output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads"
  value       = aws_ssm_parameter.airflow.name
}

output "bucket_name" {
  description = "Bucket of results and reports"
  value       = module.storage.bucket_name
}

output "airflow_policy_arns" {
  description = "Airflow's policies, run and watch"
  value       = module.airflow_access.policy_arns
}

output "airflow_role_arn" {
  description = "Role that airflow_principal_arns may assume"
  value       = module.airflow_access.role_arn
}
