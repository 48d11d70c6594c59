output "policy_arn" {
  description = "Policy to attach to the role that Airflow runs with"
  value       = aws_iam_policy.this.arn
}

output "policy_json" {
  description = "The policy's document"
  value       = data.aws_iam_policy_document.this.minified_json
}

output "role_arn" {
  description = "Role for the principals; null without any"
  value       = one(aws_iam_role.this[*].arn)
}
