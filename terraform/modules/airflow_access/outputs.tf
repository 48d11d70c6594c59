output "policy_arns" {
  description = "Policies run and watch for Airflow's role"
  value       = { for key, policy in aws_iam_policy.this : key => policy.arn }
}

output "role_arn" {
  description = "Role that principal_arns may assume"
  value       = one(aws_iam_role.this[*].arn)
}
