data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

data "aws_region" "current" {}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  region     = data.aws_region.current.name

  batch_arn      = "arn:${local.partition}:batch:${local.region}:${local.account_id}"
  log_groups_arn = "arn:${local.partition}:logs:${local.region}:${local.account_id}:log-group"

  # Any revision: a DAG run that is under way names the one from before an apply.
  submitted_to = concat(
    tolist(var.job_queue_arns),
    [for arn in var.job_definition_arns : "${replace(arn, "/:[0-9]+$/", "")}:*"],
  )

  job_logs   = flatten([for name in sort(var.log_group_names) : ["${local.log_groups_arn}:${name}", "${local.log_groups_arn}:${name}:*"]])
  job_states = flatten([for name in var.events_log_group_name[*] : ["${local.log_groups_arn}:${name}", "${local.log_groups_arn}:${name}:*"]])

  ecs_arn = "arn:${local.partition}:ecs:${local.region}:${local.account_id}"

  # Batch calls a cluster AWSBatch-ENVIRONMENT-UUID, and ENVIRONMENT_Batch_UUID where it is old.
  our_clusters = ["AWSBatch-${var.name}-*", "${var.name}-*_Batch_*"]

  # What a queue of others starts its instances in is not known here, so all of Batch's may be looked at.
  ecs_clusters = var.foreign_queues ? ["AWSBatch-*", "*_Batch_*"] : local.our_clusters
}

################################################################################
# What running benchmarks takes
################################################################################

data "aws_iam_policy_document" "run" {
  statement {
    sid       = "SubmitJobs"
    actions   = ["batch:SubmitJob"]
    resources = local.submitted_to
  }

  statement {
    sid       = "TagJobsWhenSubmitted"
    actions   = ["batch:TagResource"]
    resources = ["${local.batch_arn}:job/*"]

    condition {
      test     = "ForAllValues:StringLike"
      variable = "aws:TagKeys"
      values   = ["batchmark:*"]
    }

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/batchmark:installation"
      values   = [var.name]
    }
  }

  # A job's id is known only once it is submitted, so its tag says that it is one of ours. Batch has no
  # key that tells tagging at submission from tagging later, so whoever acts as Airflow could claim a
  # foreign job by its id.
  statement {
    sid       = "StopOwnJobs"
    actions   = ["batch:TerminateJob"]
    resources = ["${local.batch_arn}:job/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/batchmark:installation"
      values   = [var.name]
    }
  }

  statement {
    sid       = "ReadJobLogs"
    actions   = ["logs:FilterLogEvents", "logs:GetLogEvents"]
    resources = local.job_logs
  }

  dynamic "statement" {
    for_each = length(local.job_states) == 0 ? [] : [local.job_states]

    content {
      sid       = "ReadJobStates"
      actions   = ["logs:FilterLogEvents"]
      resources = statement.value
    }
  }

  statement {
    sid       = "LookAtHosts"
    actions   = ["ecs:DescribeContainerInstances", "ecs:DescribeTasks"]
    resources = flatten([for name in local.ecs_clusters : ["${local.ecs_arn}:container-instance/${name}", "${local.ecs_arn}:task/${name}"]])
  }

  # Jobs, what they run on, and what that costs.
  statement {
    sid = "FollowJobs"
    actions = [
      "batch:DescribeComputeEnvironments",
      "batch:DescribeJobDefinitions",
      "batch:DescribeJobQueues",
      "batch:DescribeJobs",
      "batch:ListJobs",
      "ec2:DescribeCapacityReservations",
      "ec2:DescribeInstances",
      "ec2:DescribeInstanceTypes",
      "ec2:DescribeSpotPriceHistory",
      "pricing:GetProducts",
    ]
    resources = ["*"] # none of them takes a resource
  }

  statement {
    sid       = "KeepResults"
    actions   = ["s3:GetObject", "s3:PutObject"]
    resources = [for folder in ["runs", "noise", "costs", "history", "history_snapshots", "alerts"] : "${var.bucket_arn}/${folder}/*"]
  }

  statement {
    sid       = "ReadResults"
    actions   = ["s3:GetObject"]
    resources = [for folder in ["raw", "imports"] : "${var.bucket_arn}/${folder}/*"]
  }

  # Your own job knows nothing of its result. The guard is told of the queues of a comparison.
  statement {
    sid       = "WriteResults"
    actions   = ["s3:PutObject"]
    resources = [for keys in ["prices/*", "raw/*/*/job-*", "guard/queues/*"] : "${var.bucket_arn}/${keys}"]
  }

  # A run that was cleared and ended in another month has its rows there; those of before would count twice.
  # They can be made again of raw/ and runs/, where nothing is ever deleted.
  statement {
    sid       = "RemoveOldHistory"
    actions   = ["s3:DeleteObject"]
    resources = ["${var.bucket_arn}/history/*"]
  }

  # The history and the month's costs are listed. And without it S3 answers 403 instead of 404 for an object that isn't
  # there: no condition on s3:prefix, because reading an object carries none, so it would never hold.
  statement {
    sid       = "ListResults"
    actions   = ["s3:ListBucket"]
    resources = [var.bucket_arn]
  }

  statement {
    sid       = "ReadVariables"
    actions   = ["ssm:GetParameter"]
    resources = [for suffix in ["", "_alerts", "_eks", "_multi_node", "_own_jobs"] : "${var.ssm_parameter_arn}${suffix}"] # all but the first need not exist
  }

  dynamic "statement" {
    for_each = var.topic_arn[*]

    content {
      sid       = "PublishAlerts"
      actions   = ["sns:Publish"]
      resources = [statement.value]
    }
  }

  dynamic "statement" {
    for_each = var.kms_key_arn[*]

    content {
      sid       = "UseKey"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = [for service in ["s3", "sns"] : "${service}.${local.region}.${data.aws_partition.current.dns_suffix}"]
      }
    }
  }
}

################################################################################
# What checks, diagnoses, the leak guard and the self-test take beside it
################################################################################

data "aws_iam_policy_document" "watch" {
  statement {
    sid = "LookAround"
    actions = [
      "autoscaling:DescribeAutoScalingGroups",
      "autoscaling:DescribeScalingActivities",
      "cloudwatch:GetMetricStatistics",
      "ec2:DescribeRouteTables",
      "ec2:DescribeSubnets",
      "ec2:DescribeVpcEndpoints",
      "fsx:DescribeFileSystems",
      # Where Inspector scans images, ECR asks it for findings in the caller's name: ECR's user guide, "IAM permissions
      # required for enhanced scanning", and a denial in github.com/alexjurkiewicz/ecr-scan-image/issues/19 (2021-12).
      "inspector2:ListFindings",
      "servicequotas:GetServiceQuota",
    ]
    resources = ["*"] # none of them takes a resource, or it lists all there are
  }

  statement {
    sid       = "LookForHosts"
    actions   = ["ecs:ListContainerInstances"]
    resources = [for name in local.our_clusters : "${local.ecs_arn}:cluster/${name}"]
  }

  dynamic "statement" {
    for_each = length(var.ecr_repository_arns) == 0 ? [] : [sort(var.ecr_repository_arns)]

    content {
      sid       = "LookAtImages"
      actions   = ["ecr:DescribeImages", "ecr:DescribeImageScanFindings", "ecr:DescribeRepositories"]
      resources = statement.value
    }
  }

  # AWS's own parameters, which belong to no account: the AMIs that ECS recommends.
  statement {
    sid       = "LookAtAmis"
    actions   = ["ssm:GetParameters"]
    resources = ["arn:${local.partition}:ssm:${local.region}::parameter/aws/service/ecs/optimized-ami/amazon-linux-2023/*"]
  }

  dynamic "statement" {
    for_each = length(var.role_arns) == 0 ? [] : [concat(tolist(var.role_arns), var.instance_profile_arn[*])]

    content {
      sid       = "LookAtRoles"
      actions   = ["iam:GetInstanceProfile", "iam:GetRole"]
      resources = statement.value
    }
  }

  dynamic "statement" {
    for_each = var.topic_arn[*]

    content {
      sid       = "LookAtTopic"
      actions   = ["sns:GetTopicAttributes"]
      resources = [statement.value]
    }
  }

  statement {
    sid       = "LookAtLogGroups"
    actions   = ["logs:DescribeLogStreams"]
    resources = concat(local.job_logs, local.job_states)
  }

  statement {
    sid       = "ReadFindings"
    actions   = ["s3:GetObject"]
    resources = [for folder in ["guard", "diagnoses", "self_test"] : "${var.bucket_arn}/${folder}/*"]
  }

  statement {
    sid       = "KeepFindings"
    actions   = ["s3:PutObject"]
    resources = [for folder in ["guard", "diagnoses", "self_test"] : "${var.bucket_arn}/${folder}/*"]
  }

  statement {
    sid     = "EndOwnLeaks"
    actions = ["ec2:TerminateInstances", "fsx:DeleteFileSystem"]
    resources = [
      "arn:${local.partition}:ec2:${local.region}:${local.account_id}:instance/*",
      "arn:${local.partition}:fsx:${local.region}:${local.account_id}:file-system/*",
    ]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/batchmark:installation"
      values   = [var.name]
    }
  }
}

################################################################################
# Policies
################################################################################

# Two, because IAM takes 6144 characters for one.
resource "aws_iam_policy" "this" {
  for_each = {
    run   = { suffix = "", calls = "run", document = data.aws_iam_policy_document.run.minified_json }
    watch = { suffix = "-watch", calls = "check, diagnose, guard and self-test", document = data.aws_iam_policy_document.watch.minified_json }
  }

  name        = "${var.name}-airflow${each.value.suffix}"
  description = "What Airflow calls to ${each.value.calls} the benchmarks of ${var.name}"
  path        = var.iam_path
  policy      = each.value.document

  lifecycle {
    precondition {
      condition     = length(each.value.document) <= 6144
      error_message = "With the ARNs of ${length(var.job_queue_arns)} queues, ${length(var.job_definition_arns)} job definitions and ${length(var.log_group_names)} log groups the policy has ${length(each.value.document)} characters, and IAM takes 6144. Spread them over two installations."
    }
  }
}

################################################################################
# Role
################################################################################

data "aws_iam_policy_document" "trust" {
  count = length(var.principal_arns) > 0 ? 1 : 0

  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "AWS"
      identifiers = var.principal_arns
    }

    dynamic "condition" {
      for_each = var.external_id == null ? [] : [var.external_id]

      content {
        test     = "StringEquals"
        variable = "sts:ExternalId"
        values   = [condition.value]
      }
    }
  }
}

resource "aws_iam_role" "this" {
  count = length(var.principal_arns) > 0 ? 1 : 0

  name                 = "${var.name}-airflow"
  description          = "Airflow that runs the benchmarks of ${var.name}"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.trust[0].json
}

resource "aws_iam_role_policy_attachment" "this" {
  for_each = { for key, policy in aws_iam_policy.this : key => policy.arn if length(var.principal_arns) > 0 }

  role       = aws_iam_role.this[0].name
  policy_arn = each.value
}
