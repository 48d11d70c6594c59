mock_provider "aws" {
  override_during = plan
  source          = "./tests/mocks"
}

variables {
  name      = "lab"
  topic_arn = "arn:aws:sns:us-east-1:111122223333:lab-alerts"

  job_queue_arns = [
    "arn:aws:batch:us-east-1:111122223333:job-queue/lab-g4dn-xlarge",
    "arn:aws:batch:us-east-1:111122223333:job-queue/lab-c5-2xlarge",
  ]
}

run "events" {
  command = plan

  assert {
    condition     = [for rule in aws_cloudwatch_event_rule.notice : rule.name] == ["lab-job-failed", "lab-queue-blocked", "lab-spot-interruption"]
    error_message = "three kinds of events are told, and the rules' names carry the prefix that the topic's policy knows"
  }

  assert {
    condition = aws_cloudwatch_event_rule.notice["job_failed"].event_pattern == jsonencode({
      source      = ["aws.batch"]
      detail-type = ["Batch Job State Change"]
      detail = {
        status          = ["FAILED"]
        arrayProperties = { index = [{ exists = false }, 0] }
        nodeDetails     = { nodeIndex = [{ exists = false }, 0] }
        jobQueue        = sort(var.job_queue_arns)
      }
    })
    error_message = "a failed job of these queues is told, of an array's children and a job's nodes the first alone"
  }

  assert {
    condition = aws_cloudwatch_event_rule.notice["queue_blocked"].event_pattern == jsonencode({
      source      = ["aws.batch"]
      detail-type = ["Batch Job Queue Blocked"]
      detail      = { jobQueue = sort(var.job_queue_arns) }
    })
    error_message = "a blocked queue is told"
  }

  assert {
    condition = aws_cloudwatch_event_rule.notice["spot_interruption"].event_pattern == jsonencode({
      source      = ["aws.batch"]
      detail-type = ["Batch Job State Change"]
      detail = {
        status   = ["RUNNABLE"]
        attempts = { statusReason = [{ prefix = "Host EC2" }] }
        jobQueue = sort(var.job_queue_arns)
      }
    })
    error_message = "a job that lost its host and is retried is told"
  }

  assert {
    condition = aws_cloudwatch_event_rule.job_states.event_pattern == jsonencode({
      source      = ["aws.batch"]
      detail-type = ["Batch Job State Change", "Batch Job Queue Blocked"]
      detail      = { jobQueue = sort(var.job_queue_arns) }
    })
    error_message = "each change of state and each blocked queue is logged"
  }

  assert {
    condition = alltrue([
      for target in aws_cloudwatch_event_target.notice :
      target.arn == var.topic_arn && one(target.retry_policy).maximum_event_age_in_seconds == 3600
    ])
    error_message = "the topic is told, for an hour at most"
  }

  # Valid JSON, or EventBridge refuses it; and no \u003c in place of a variable.
  assert {
    condition = alltrue([
      for target in aws_cloudwatch_event_target.notice : endswith(
        jsondecode(one(target.input_transformer).input_template),
        "Job <job_id> in <queue>. https://us-east-1.console.aws.amazon.com/batch/home?region=us-east-1#jobs/detail/<job_id>",
      ) && strcontains(one(target.input_transformer).input_template, "<job_name>")
    ])
    error_message = "a message is one text that names job, queue and where to look"
  }

  assert {
    condition = alltrue(flatten([
      for target in aws_cloudwatch_event_target.notice : [
        for variable in regexall("<([a-z_]+)>", one(target.input_transformer).input_template) :
        contains(keys(one(target.input_transformer).input_paths), variable[0])
      ]
    ]))
    error_message = "each variable of a message has a path"
  }

  assert {
    condition     = aws_cloudwatch_event_target.job_states.arn == aws_cloudwatch_log_group.events[0].arn && aws_cloudwatch_log_group.events[0].retention_in_days == 30
    error_message = "events are kept for a while"
  }

  assert {
    condition = [
      for statement in data.aws_iam_policy_document.events[0].statement :
      "${one(statement.actions)} ${one(statement.resources)} ${join(" ", sort(one(statement.principals).identifiers))}"
      ] == [
      "logs:CreateLogStream ${aws_cloudwatch_log_group.events[0].arn}:* delivery.logs.amazonaws.com events.amazonaws.com",
      "logs:PutLogEvents ${aws_cloudwatch_log_group.events[0].arn}:*:* delivery.logs.amazonaws.com events.amazonaws.com",
    ]
    error_message = "EventBridge may write to this log group only"
  }

  assert {
    condition = {
      for condition in data.aws_iam_policy_document.events[0].statement[1].condition : "${condition.test} ${condition.variable}" => join(" ", sort(condition.values))
    } == { "ArnLike aws:SourceArn" = "arn:aws:events:us-east-1:111122223333:rule/lab-*" }
    error_message = "only rules whose names begin with this one's may write"
  }

  assert {
    condition     = startswith(aws_cloudwatch_log_metric_filter.job_states[0].pattern, "{ $.detail-type = \"Batch Job State Change\" &&")
    error_message = "a blocked queue, whose event has a status too, is not counted as a change of state"
  }

  assert {
    condition = {
      for transformation in aws_cloudwatch_log_metric_filter.job_states[0].metric_transformation : "${transformation.namespace}/${transformation.name}" => transformation.dimensions
    } == { "Batchmark/JobStateChanges" = tomap({ Status = "$.detail.status" }) }
    error_message = "job states are counted by state and nothing else: each further dimension costs"
  }

  assert {
    condition     = length(aws_cloudwatch_metric_alarm.idle) == 0 && [for widget in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : widget.type] == ["text", "metric", "metric", "log"]
    error_message = "without clusters and targets there are no alarms, and no empty widgets"
  }
}

run "dashboard_and_alarms" {
  command = plan

  variables {
    notices           = ["job_failed"]
    metrics_namespace = "Lab"
    target_names      = ["g4dn.xlarge", "c5.2xlarge"]
    ecs_cluster_names = { "g4dn.xlarge/spot" = "cluster-1", "c5.2xlarge/on_demand" = "cluster-2" }

    compute_environment_prefixes = { "g4dn.xlarge/spot" = "lab-g4dn-xlarge-spot-" }
    kms_key_arn                  = "arn:aws:kms:us-east-1:111122223333:key/lab"
  }

  assert {
    condition     = keys(aws_cloudwatch_event_rule.notice) == ["job_failed"] && keys(aws_cloudwatch_event_target.notice) == ["job_failed"]
    error_message = "only what is asked for is told"
  }

  assert {
    condition     = aws_cloudwatch_log_group.events[0].kms_key_id == "arn:aws:kms:us-east-1:111122223333:key/lab"
    error_message = "the key encrypts the log group"
  }

  assert {
    condition = {
      for alarm in aws_cloudwatch_metric_alarm.idle : alarm.alarm_name => alarm.dimensions
      } == {
      lab-idle-c5-2xlarge-on-demand = tomap({ ClusterName = "cluster-2" })
      lab-idle-g4dn-xlarge-spot     = tomap({ ClusterName = "cluster-1" })
    }
    error_message = "each cluster has its alarm"
  }

  assert {
    condition = alltrue([
      for alarm in aws_cloudwatch_metric_alarm.idle :
      "${alarm.namespace} ${alarm.metric_name} ${alarm.statistic} ${alarm.comparison_operator} ${alarm.threshold}" == "AWS/ECS CPUReservation Maximum LessThanOrEqualToThreshold 0"
      && alarm.period * alarm.evaluation_periods == 1800
      && alarm.treat_missing_data == "notBreaching"
      && alarm.alarm_actions == toset([var.topic_arn])
    ])
    error_message = "30 minutes with instances and no job are told; no instances are fine"
  }

  assert {
    condition = jsondecode(aws_cloudwatch_event_rule.launches["g4dn.xlarge/spot"].event_pattern) == {
      source      = ["aws.autoscaling"]
      detail-type = ["EC2 Instance Launch Successful"]
      detail      = { AutoScalingGroupName = [{ wildcard = "*lab-g4dn-xlarge-spot-*" }] }
    }
    error_message = "the launches of each environment are counted by its name within its group's"
  }

  assert {
    condition = alltrue([
      for alarm in [aws_cloudwatch_metric_alarm.launches["g4dn.xlarge/spot"]] :
      "${alarm.namespace} ${alarm.metric_name} ${alarm.statistic} ${alarm.comparison_operator} ${alarm.threshold} ${alarm.period}" == "AWS/Events TriggeredRules Sum GreaterThanOrEqualToThreshold 4 3600"
      && alarm.dimensions == tomap({ RuleName = "lab-launches-g4dn-xlarge-spot" })
      && alarm.treat_missing_data == "notBreaching"
      && alarm.alarm_actions == toset([var.topic_arn])
    ])
    error_message = "four launches within an hour are told"
  }

  assert {
    condition = [
      for widget in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : try(widget.properties.title, "text")
      ] == [
      "text",
      "Jobs that entered each state",
      "vCPUs running in the whole account",
      "GPU utilisation (%)",
      "GPU memory used (MB)",
      "GPU power (W)",
      "GPU clock (MHz)",
      "GPU temperature (°C)",
      "CPU utilisation (%)",
      "Memory used (MB)",
      "Latest failed jobs",
      "Instances with no job, and launched over and over",
    ]
    error_message = "the dashboard shows all there is"
  }

  assert {
    condition = jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets[3].properties.metrics == [
      ["Lab", "GPUUtilization", "Target", "g4dn.xlarge", { label = "g4dn.xlarge" }],
      ["Lab", "GPUUtilization", "Target", "c5.2xlarge", { label = "c5.2xlarge" }],
    ]
    error_message = "telemetry is shown by target"
  }

  assert {
    condition = [
      for metric in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets[1].properties.metrics : join(" ", metric)
    ] == [for status in ["SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED"] : "Lab JobStateChanges Status ${status}"]
    error_message = "all states are shown"
  }

  assert {
    condition = alltrue([
      for widget in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : widget.x + widget.width <= 24
    ]) && length(distinct([for widget in jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets : "${widget.x}/${widget.y}"])) == 12
    error_message = "no widget lies on another"
  }

  assert {
    condition     = strcontains(jsondecode(aws_cloudwatch_dashboard.this[0].dashboard_body).widgets[0].properties.markdown, "log-group/$252Faws$252Fevents$252Fbatch$252Flab")
    error_message = "the console wants slashes encoded twice"
  }

  assert {
    condition     = output.dashboard_url == "https://us-east-1.console.aws.amazon.com/cloudwatch/home?region=us-east-1#dashboards:name=lab"
    error_message = "the dashboard has an address"
  }
}

run "beside_another" {
  command = plan

  variables {
    name                         = "lab-multi-node"
    event_log_group_name         = "/aws/events/batch/lab"
    ecs_cluster_names            = { "g5.12xlarge" = "cluster-1" }
    compute_environment_prefixes = { "g5.12xlarge" = "lab-multi-node-" }
  }

  assert {
    condition     = length(aws_cloudwatch_log_group.events) + length(aws_cloudwatch_log_resource_policy.events) + length(aws_cloudwatch_log_metric_filter.job_states) + length(aws_cloudwatch_dashboard.this) == 0 && output.dashboard_url == null
    error_message = "the other's log group is taken, with its policy, of which an account may have ten"
  }

  assert {
    condition     = [for target in concat([aws_cloudwatch_event_target.job_states], values(aws_cloudwatch_event_target.launches)) : target.arn] == [for number in range(2) : "arn:aws:logs:us-east-1:111122223333:log-group:/aws/events/batch/lab"] && output.event_log_group_name == "/aws/events/batch/lab"
    error_message = "job states and launches are logged there"
  }

  # What the other's policies for its log group and its topic know.
  assert {
    condition     = alltrue([for name in concat([aws_cloudwatch_event_rule.job_states.name], values(aws_cloudwatch_event_rule.launches)[*].name, values(aws_cloudwatch_metric_alarm.idle)[*].alarm_name) : startswith(name, "lab-")])
    error_message = "by names that begin as the other's do"
  }
}

run "refuses_a_pattern_that_is_too_long" {
  command = plan

  variables {
    job_queue_arns = [for number in range(40) : "arn:aws:batch:us-east-1:111122223333:job-queue/lab-${number}"]
    notices        = ["job_failed"]
  }

  expect_failures = [aws_cloudwatch_event_rule.notice["job_failed"], aws_cloudwatch_event_rule.job_states]
}

run "refuses_no_queues" {
  command = plan

  variables {
    job_queue_arns = []
  }

  expect_failures = [var.job_queue_arns]
}

run "refuses_an_unknown_notice" {
  command = plan

  variables {
    notices = ["job_succeeded"]
  }

  expect_failures = [var.notices]
}

run "refuses_aws_own_namespace" {
  command = plan

  variables {
    metrics_namespace = "AWS/Batch"
  }

  expect_failures = [var.metrics_namespace]
}

run "refuses_an_odd_number_of_minutes" {
  command = plan

  variables {
    idle_minutes = 12
  }

  expect_failures = [var.idle_minutes]
}

run "refuses_half_a_launch" {
  command = plan

  variables {
    launches_per_hour = 2.5
  }

  expect_failures = [var.launches_per_hour]
}

run "refuses_a_retention_that_cloudwatch_does_not_take" {
  command = plan

  variables {
    log_retention_days = 31
  }

  expect_failures = [var.log_retention_days]
}
