output "policy_arns" {
  description = "Airflow's policies, run and watch"
  value       = { for key, policy in aws_iam_policy.this : key => policy.arn }
}

output "role_arn" {
  description = "Role that principal_arns may assume"
  value       = one(aws_iam_role.this[*].arn)
}
