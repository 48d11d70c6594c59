output "key_arn" {
  description = "The key, once its policy is there"
  value       = aws_kms_key.this.arn

  # CloudWatch Logs and ECR try a key out before they take it.
  depends_on = [aws_kms_key_policy.this]
}

output "alias_name" {
  description = "Alias of the key"
  value       = aws_kms_alias.this.name
}
