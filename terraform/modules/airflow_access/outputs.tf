output "policy_arns" {
  description = "Policies to attach to the role that Airflow runs with: run for benchmarks, watch for checks, diagnoses and the leak guard"
  value       = { for key, policy in aws_iam_policy.this : key => policy.arn }
}

output "role_arn" {
  description = "Role for the principals; null without any"
  value       = one(aws_iam_role.this[*].arn)
}
