output "webserver_url" {
  description = "Address of the Airflow UI"
  value       = "https://${aws_mwaa_environment.this.webserver_url}"
}

output "environment_arn" {
  description = "The MWAA environment"
  value       = aws_mwaa_environment.this.arn
}

output "execution_role_arn" {
  description = "Role that Airflow and its tasks run with"
  value       = aws_iam_role.this.arn
}

output "bucket_name" {
  description = "Bucket of DAGs, plugins and requirements"
  value       = aws_s3_bucket.this.id
}

output "security_group_id" {
  description = "Security group of the environment"
  value       = aws_security_group.this.id
}
