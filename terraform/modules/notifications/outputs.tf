output "topic_arn" {
  description = "The topic"
  value       = aws_sns_topic.this.arn
}
