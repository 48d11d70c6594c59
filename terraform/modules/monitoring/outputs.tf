output "dashboard_url" {
  description = "The dashboard in the AWS console"
  value       = local.dashboard_url
}

output "event_log_group_name" {
  description = "Log group of all job state changes"
  value       = aws_cloudwatch_log_group.events.name
}

output "alarm_names" {
  description = "Alarms on instances with no job, by cluster"
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.idle : key => alarm.alarm_name }
}

output "launch_alarm_names" {
  description = "Alarms on instances that are launched over and over, by compute environment"
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.launches : key => alarm.alarm_name }
}
