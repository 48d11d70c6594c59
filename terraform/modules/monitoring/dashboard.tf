locals {
  dashboard_url    = "${local.console}/cloudwatch/home?region=${local.region}#dashboards:name=${var.name}"
  batch_jobs_url   = "${local.console}/batch/home?region=${local.region}#jobs"
  event_log_url    = "${local.console}/cloudwatch/home?region=${local.region}#logsV2:log-groups/log-group/${replace(local.event_log_group_name, "/", "$252F")}"
  latest_log_query = "SOURCE '${local.event_log_group_name}' | fields @timestamp, detail.jobName, detail.statusReason, detail.container.reason, detail.container.exitCode, detail.jobId | filter detail.status = 'FAILED' | sort @timestamp desc | limit 20"

  # From the jobs themselves, one line per target.
  telemetry = [
    { title = "GPU utilisation (%)", metric = "GPUUtilization" },
    { title = "GPU memory used (MB)", metric = "GPUMemoryUsed" },
    { title = "GPU power (W)", metric = "GPUPower" },
    { title = "GPU clock (MHz)", metric = "GPUClock" },
    { title = "GPU temperature (°C)", metric = "GPUTemperature" },
    { title = "CPU utilisation (%)", metric = "CPUUtilization" },
    { title = "Memory used (MB)", metric = "MemoryUsed" },
  ]

  text_widget = {
    type       = "text"
    x          = 0
    y          = 0
    width      = 24
    height     = 2
    properties = { markdown = "# ${var.name}\n[Jobs](${local.batch_jobs_url}) · [Events of all jobs](${local.event_log_url})" }
  }

  state_widget = {
    type   = "metric"
    x      = 0
    y      = 2
    width  = 12
    height = 6
    properties = {
      title   = "Jobs that entered each state"
      region  = local.region
      view    = "timeSeries"
      stacked = false
      stat    = "Sum"
      period  = 300
      metrics = [
        for status in ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED"] :
        [var.metrics_namespace, "JobStateChanges", "Status", status]
      ]
    }
  }

  vcpu_widget = {
    type   = "metric"
    x      = 12
    y      = 2
    width  = 12
    height = 6
    properties = {
      title   = "vCPUs running in the whole account"
      region  = local.region
      view    = "timeSeries"
      stacked = true
      stat    = "Maximum"
      period  = 300
      metrics = [
        for class in ["Standard/OnDemand", "Standard/Spot", "G/OnDemand", "G/Spot", "P/OnDemand", "P/Spot"] :
        ["AWS/Usage", "ResourceCount", "Type", "Resource", "Resource", "vCPU", "Service", "EC2", "Class", class, { label = class }]
      ]
    }
  }

  telemetry_widgets = [
    for position, widget in local.telemetry : {
      type   = "metric"
      x      = position % 2 * 12
      y      = 8 + floor(position / 2) * 6
      width  = 12
      height = 6
      properties = {
        title   = widget.title
        region  = local.region
        view    = "timeSeries"
        stacked = false
        stat    = "Average"
        period  = 60
        metrics = [
          for target in var.target_names : [var.metrics_namespace, widget.metric, "Target", target, { label = target }]
        ]
      }
    }
  ]

  below_telemetry = 8 + ceil(length(local.telemetry) / 2) * 6

  failure_widget = {
    type   = "log"
    x      = 0
    y      = local.below_telemetry
    width  = 24
    height = 6
    properties = {
      title  = "Latest failed jobs"
      region = local.region
      view   = "table"
      query  = local.latest_log_query
    }
  }

  alarm_widget = {
    type   = "alarm"
    x      = 0
    y      = local.below_telemetry + 6
    width  = 24
    height = 3
    properties = {
      title = "Instances with no job, and launched over and over"
      alarms = concat(
        [for key in sort(keys(var.ecs_cluster_names)) : aws_cloudwatch_metric_alarm.idle[key].arn],
        [for key in sort(keys(var.compute_environment_prefixes)) : aws_cloudwatch_metric_alarm.launches[key].arn],
      )
    }
  }
}

resource "aws_cloudwatch_dashboard" "this" {
  count = local.owned

  dashboard_name = var.name

  # CloudWatch refuses a widget of no alarms or of no metrics.
  dashboard_body = jsonencode({
    widgets = concat(
      [local.text_widget, local.state_widget, local.vcpu_widget],
      [for widget in local.telemetry_widgets : widget if length(var.target_names) > 0],
      [local.failure_widget],
      [for widget in [local.alarm_widget] : widget if length(local.slugs) > 0],
    )
  })
}
