output "policy_arns" {
  description = "Policies for Airflow's role: run for benchmarks; watch for checks, diagnoses, guard and self-test"
  value       = { for key, policy in aws_iam_policy.this : key => policy.arn }
}

output "role_arn" {
  description = "Role for the principals; null without any"
  value       = one(aws_iam_role.this[*].arn)
}
