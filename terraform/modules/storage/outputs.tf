output "bucket_name" {
  description = "The result bucket"
  value       = aws_s3_bucket.this.id
}

output "bucket_arn" {
  description = "ARN of the result bucket"
  value       = aws_s3_bucket.this.arn
}

output "ecr_repository_url" {
  description = "Where to push the job image"
  value       = one(aws_ecr_repository.this[*].repository_url)
}

output "ecr_repository_arn" {
  description = "ARN of the image repository"
  value       = one(aws_ecr_repository.this[*].arn)
}
