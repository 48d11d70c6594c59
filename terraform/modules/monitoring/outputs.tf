output "dashboard_url" {
  description = "The dashboard"
  value       = var.event_log_group_name == null ? local.dashboard_url : null
}

output "event_log_group_name" {
  description = "Log group of job state changes"
  value       = local.event_log_group_name
}

output "alarm_names" {
  description = "Alarms on idle instances, by cluster"
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.idle : key => alarm.alarm_name }
}

output "launch_alarm_names" {
  description = "Alarms on launches, by compute environment"
  value       = { for key, alarm in aws_cloudwatch_metric_alarm.launches : key => alarm.alarm_name }
}
