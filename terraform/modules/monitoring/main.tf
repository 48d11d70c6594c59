data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.name

  consoles = {
    aws        = "console.aws.amazon.com"
    aws-cn     = "console.amazonaws.cn"
    aws-us-gov = "console.amazonaws-us-gov.com"
  }
  console = "https://${local.region}.${lookup(local.consoles, local.partition, local.consoles.aws)}"

  event_patterns = {
    for name in ["job_failed", "queue_blocked", "spot_interruption", "job_states"] :
    name => jsonencode(jsondecode(templatefile("${path.module}/event_patterns/${name}.json.tftpl", {
      job_queues = jsonencode(sort(var.job_queue_arns))
    })))
  }

  # One that is there already has all of this: the right to be written to, the counted states, the dashboard.
  owned = var.event_log_group_name == null ? 1 : 0

  event_log_group_name = var.event_log_group_name == null ? aws_cloudwatch_log_group.events[0].name : var.event_log_group_name
  event_log_group_arn  = var.event_log_group_name == null ? aws_cloudwatch_log_group.events[0].arn : "arn:${local.partition}:logs:${local.region}:${local.account_id}:log-group:${var.event_log_group_name}"

  slugs = {
    for key in setunion(keys(var.ecs_cluster_names), keys(var.compute_environment_prefixes)) :
    key => replace(key, "/[^A-Za-z0-9]+/", "-")
  }

  # EventBridge takes names of up to 64 characters. Shorter ones stay whole: a new name is a new rule.
  launch_rules = {
    for key in keys(var.compute_environment_prefixes) : key => "${var.name}-launches-${local.slugs[key]}"
  }

  # A name that the event does not have leaves nothing behind.
  messages = {
    job_failed        = "${var.name}: job <job_name> FAILED. Reason: <reason> <container_reason> Job <job_id> in <queue>."
    queue_blocked     = "${var.name}: a queue is BLOCKED by job <job_name>. Reason: <reason> Job <job_id> in <queue>."
    spot_interruption = "${var.name}: job <job_name> lost its host and waits for another, most likely a Spot reclaim. Job <job_id> in <queue>."
  }
}

################################################################################
# Notices: what happened to a job, to the topic
################################################################################

resource "aws_cloudwatch_event_rule" "notice" {
  for_each = var.notices

  name          = "${var.name}-${replace(each.key, "_", "-")}"
  description   = "Tells the alerts topic: ${replace(each.key, "_", " ")}"
  event_pattern = local.event_patterns[each.key]

  lifecycle {
    precondition {
      condition     = length(local.event_patterns[each.key]) <= 2048
      error_message = "The event pattern of ${each.key} has ${length(local.event_patterns[each.key])} characters with ${length(var.job_queue_arns)} queues, and EventBridge takes 2048. Give fewer job_queue_arns, that is fewer targets, or spread them over two installations."
    }
  }
}

resource "aws_cloudwatch_event_target" "notice" {
  for_each = var.notices

  rule      = aws_cloudwatch_event_rule.notice[each.key].name
  target_id = "topic"
  arn       = var.topic_arn

  input_transformer {
    input_paths = {
      job_name         = "$.detail.jobName"
      job_id           = "$.detail.jobId"
      queue            = "$.detail.jobQueue"
      reason           = "$.detail.statusReason"
      container_reason = "$.detail.container.reason"
    }

    # EventBridge takes a text in quotes only. jsonencode() would turn each < into \u003c.
    input_template = "\"${local.messages[each.key]} ${local.console}/batch/home?region=${local.region}#jobs/detail/<job_id>\""
  }

  retry_policy {
    maximum_event_age_in_seconds = 3600
    maximum_retry_attempts       = 10
  }
}

################################################################################
# Job states: Batch has no metric of them, so its events are logged and counted
################################################################################

resource "aws_cloudwatch_log_group" "events" {
  count = local.owned

  name              = "/aws/events/batch/${var.name}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_cloudwatch_event_rule" "job_states" {
  name          = "${var.name}-job-states"
  description   = "Logs each change of a job's state, and each queue that a job blocks"
  event_pattern = local.event_patterns["job_states"]

  lifecycle {
    precondition {
      condition     = length(local.event_patterns["job_states"]) <= 2048
      error_message = "The event pattern of job_states has ${length(local.event_patterns["job_states"])} characters with ${length(var.job_queue_arns)} queues, and EventBridge takes 2048. Give fewer job_queue_arns, that is fewer targets, or spread them over two installations."
    }
  }
}

resource "aws_cloudwatch_event_target" "job_states" {
  rule      = aws_cloudwatch_event_rule.job_states.name
  target_id = "log-group"
  arn       = local.event_log_group_arn

  depends_on = [aws_cloudwatch_log_resource_policy.events]
}

data "aws_iam_policy_document" "events" {
  count = local.owned

  # EventBridge creates streams without saying for which rule.
  statement {
    sid       = "CreateLogStreams"
    actions   = ["logs:CreateLogStream"]
    resources = ["${aws_cloudwatch_log_group.events[0].arn}:*"]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com", "delivery.logs.amazonaws.com"]
    }
  }

  statement {
    sid       = "WriteEvents"
    actions   = ["logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.events[0].arn}:*:*"]

    principals {
      type        = "Service"
      identifiers = ["events.amazonaws.com", "delivery.logs.amazonaws.com"]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      # Of stacks beside the core's, too, whose names begin with its own, as with the topic's publishers.
      values = ["arn:${local.partition}:events:${local.region}:${local.account_id}:rule/${var.name}-*"]
    }
  }
}

# EventBridge writes by no role, but by such a policy alone, of which an account may have ten in a region.
resource "aws_cloudwatch_log_resource_policy" "events" {
  count = local.owned

  policy_name     = "${var.name}-events"
  policy_document = data.aws_iam_policy_document.events[0].json
}

resource "aws_cloudwatch_log_metric_filter" "job_states" {
  count = local.owned

  name           = "${var.name}-job-states"
  log_group_name = local.event_log_group_name
  pattern        = "{ $.detail-type = \"Batch Job State Change\" && $.detail.status = \"*\" }"

  # One dimension only: each further one would multiply the metrics, and they are billed one by one.
  metric_transformation {
    name       = "JobStateChanges"
    namespace  = var.metrics_namespace
    value      = "1"
    unit       = "Count"
    dimensions = { Status = "$.detail.status" }
  }
}

################################################################################
# Alarms: instances that run with no job
################################################################################

# ECS reports a reservation as long as an instance is registered, so 0 means: there, and unused.
resource "aws_cloudwatch_metric_alarm" "idle" {
  for_each = var.ecs_cluster_names

  alarm_name        = "${var.name}-idle-${local.slugs[each.key]}"
  alarm_description = "Instances of ${each.key} have run for ${var.idle_minutes} minutes with no job and cost money. Batch ends them by itself after some minutes: look at the compute environment's min and desired vCPUs, and whether it is VALID."

  namespace           = "AWS/ECS"
  metric_name         = "CPUReservation"
  dimensions          = { ClusterName = each.value }
  statistic           = "Maximum"
  period              = 300
  evaluation_periods  = var.idle_minutes / 5
  comparison_operator = "LessThanOrEqualToThreshold"
  threshold           = 0

  # No instance, no data, nothing to pay.
  treat_missing_data = "notBreaching"

  alarm_actions = [var.topic_arn]
}

################################################################################
# Alarms: instances that are launched over and over
################################################################################

# One that never joins its ECS cluster has no metric there. Batch replaces it as long as a job waits,
# so its launches are what shows. Batch puts the environment's name into that of its group.
resource "aws_cloudwatch_event_rule" "launches" {
  for_each = var.compute_environment_prefixes

  name        = length(local.launch_rules[each.key]) <= 64 ? local.launch_rules[each.key] : "${substr(local.launch_rules[each.key], 0, 55)}-${substr(sha256(local.launch_rules[each.key]), 0, 8)}"
  description = "Logs and counts the instances launched for ${each.key}"

  event_pattern = jsonencode(jsondecode(templatefile("${path.module}/event_patterns/launches.json.tftpl", {
    environment = each.value
  })))
}

resource "aws_cloudwatch_event_target" "launches" {
  for_each = aws_cloudwatch_event_rule.launches

  rule      = each.value.name
  target_id = "log-group"
  arn       = local.event_log_group_arn

  depends_on = [aws_cloudwatch_log_resource_policy.events]
}

resource "aws_cloudwatch_metric_alarm" "launches" {
  for_each = aws_cloudwatch_event_rule.launches

  alarm_name        = each.value.name
  alarm_description = "${var.launches_per_hour} or more instances were launched for ${each.key} within an hour. If no job ran on them, they don't join their ECS cluster, are replaced and cost money: run the DAG diagnose_queue, or look at what reaches the internet or the endpoints from their subnets, and at the AMI."

  namespace           = "AWS/Events"
  metric_name         = "TriggeredRules"
  dimensions          = { RuleName = each.value.name }
  statistic           = "Sum"
  period              = 3600
  evaluation_periods  = 1
  comparison_operator = "GreaterThanOrEqualToThreshold"
  threshold           = var.launches_per_hour

  treat_missing_data = "notBreaching"

  alarm_actions = [var.topic_arn]
}
