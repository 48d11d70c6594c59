################################################################################
# What instances and tasks share: pulling the image, writing logs
################################################################################

locals {
  # By account, region and name. Other registries know nothing of roles.
  further_repositories = concat([], [
    for image in sort(var.further_images) : regexall("^([0-9]{12})\\.dkr\\.ecr\\.([a-z0-9-]+)\\.amazonaws\\.com(?:\\.cn)?/([^:@]+)", image)
  ]...)

  further_repository_arns = distinct([for parts in local.further_repositories : "arn:${local.partition}:ecr:${parts[1]}:${parts[0]}:repository/${parts[2]}"])
  repository_arns         = distinct(concat([var.ecr_repository_arn], local.further_repository_arns))
}

# Whether the ECS agent does this as the instance or as the execution role depends on its version and
# settings, so both may, and neither may more.
data "aws_iam_policy_document" "pull_and_log" {
  statement {
    sid       = "RegistryLogin"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # the API takes no resource
  }

  statement {
    sid       = "PullImage"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = local.repository_arns
  }

  # Where a pull-through cache is named, the first pull makes the repository and imports the image, as its caller:
  # https://docs.aws.amazon.com/AmazonECR/latest/userguide/pull-through-cache-iam.html (read in November 2026).
  dynamic "statement" {
    for_each = length(local.further_repository_arns) == 0 ? [] : [local.further_repository_arns]

    content {
      sid       = "PullThroughCache"
      actions   = ["ecr:BatchImportUpstreamImage", "ecr:CreateRepository"]
      resources = statement.value
    }
  }

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = [for name in sort(keys(local.targets)) : "${aws_cloudwatch_log_group.this.arn}:log-stream:${name}/*"]
  }
}

################################################################################
# Instance role
################################################################################

data "aws_iam_policy_document" "ec2_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

# Batch calls a cluster AWSBatch-ENVIRONMENT-UUID, and ENVIRONMENT_Batch_UUID where it is old.
locals {
  cluster_names           = ["AWSBatch-${var.name}-*", "${var.name}-*_Batch_*"]
  our_clusters            = [for name in local.cluster_names : "arn:${local.partition}:ecs:${local.region}:${local.account_id}:cluster/${name}"]
  our_container_instances = [for name in local.cluster_names : "arn:${local.partition}:ecs:${local.region}:${local.account_id}:container-instance/${name}"]
}

# What the ECS agent calls, on the clusters that Batch makes for our compute environments.
data "aws_iam_policy_document" "instance" {
  source_policy_documents = [data.aws_iam_policy_document.pull_and_log.json]

  statement {
    sid       = "FindEcs"
    actions   = ["ecs:DiscoverPollEndpoint"]
    resources = ["*"] # the API takes no resource
  }

  statement {
    sid = "JoinCluster"
    actions = [
      "ecs:DeregisterContainerInstance",
      "ecs:RegisterContainerInstance",
      "ecs:SubmitAttachmentStateChanges",
      "ecs:SubmitContainerStateChange",
      "ecs:SubmitTaskStateChange",
    ]
    resources = local.our_clusters
  }

  statement {
    sid       = "TakeTasks"
    actions   = ["ecs:Poll", "ecs:StartTelemetrySession", "ecs:UpdateContainerInstancesState"]
    resources = local.our_container_instances

    condition {
      test     = "ArnLike"
      variable = "ecs:cluster"
      values   = local.our_clusters
    }
  }

  statement {
    sid       = "TagItself"
    actions   = ["ecs:TagResource"]
    resources = local.our_container_instances

    condition {
      test     = "StringEquals"
      variable = "ecs:CreateAction"
      values   = ["RegisterContainerInstance"]
    }
  }
}

resource "aws_iam_role" "instance" {
  name_prefix          = "${var.name}-instance-"
  description          = "Batch instances of ${var.name}: join ECS, pull the job image, write logs"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.ec2_trust.json
}

resource "aws_iam_role_policy" "instance" {
  name   = "ecs-agent"
  role   = aws_iam_role.instance.id
  policy = data.aws_iam_policy_document.instance.json
}

resource "aws_iam_instance_profile" "this" {
  name_prefix = "${var.name}-instance-"
  path        = var.iam_path
  role        = aws_iam_role.instance.name
}

resource "aws_iam_role_policy_attachment" "instance" {
  for_each = setunion(
    var.instance_policy_arns,
    var.enable_session_manager ? ["arn:${local.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"] : [],
  )

  role       = aws_iam_role.instance.name
  policy_arn = each.key
}

################################################################################
# Job and execution role
################################################################################

data "aws_iam_policy_document" "task_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ecs-tasks.amazonaws.com"]
    }

    # Only for tasks of this account: the service acts for every account.
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnLike"
      variable = "aws:SourceArn"
      values   = ["arn:${local.partition}:ecs:${local.region}:${local.account_id}:*"]
    }
  }
}

# A role for each target, as far as a policy can tell jobs apart: it knows no run.
data "aws_iam_policy_document" "job" {
  for_each = local.targets

  statement {
    sid = "RawResults"
    # The job tries the bucket out before it measures: it starts an upload and aborts it.
    actions   = ["s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["${var.bucket_arn}/raw/*/${each.key}/*"]
  }

  # A document that is there stays as it is, whoever's run it is of.
  statement {
    sid       = "WriteOnce"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/raw/*"]

    condition {
      test     = "Null"
      variable = "s3:if-none-match"
      values   = ["true"]
    }

    # Beginning an upload in parts takes no condition, ending it does.
    condition {
      test     = "Bool"
      variable = "s3:ObjectCreationOperation"
      values   = ["true"]
    }
  }

  # Of your own jobs, Airflow writes the documents.
  statement {
    sid       = "NoOwnJobs"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["${var.bucket_arn}/raw/*/${each.key}/job-*"]
  }

  statement {
    sid       = "Telemetry"
    actions   = ["cloudwatch:PutMetricData"]
    resources = ["*"] # the API takes no resource

    condition {
      test     = "StringEquals"
      variable = "cloudwatch:namespace"
      values   = [var.metrics_namespace]
    }
  }

  # An upload in parts reads its own key back, hence Decrypt.
  dynamic "statement" {
    for_each = var.kms_key_arn == null ? [] : [var.kms_key_arn]

    content {
      sid       = "EncryptResults"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["s3.${local.region}.${data.aws_partition.current.dns_suffix}"]
      }
    }
  }
}

resource "aws_iam_role" "job" {
  for_each = local.targets

  name_prefix          = "${var.name}-job-"
  description          = "Benchmark jobs of ${var.name} on ${each.key}: write raw results, publish telemetry"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.task_trust.json

  tags = { Target = each.key }
}

resource "aws_iam_role_policy" "job" {
  for_each = local.targets

  name   = "results-and-telemetry"
  role   = aws_iam_role.job[each.key].id
  policy = data.aws_iam_policy_document.job[each.key].json
}

resource "aws_iam_role" "execution" {
  name_prefix          = "${var.name}-execution-"
  description          = "Start benchmark jobs of ${var.name}: pull the job image, write logs"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.task_trust.json
}

resource "aws_iam_role_policy" "execution" {
  name   = "pull-and-log"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.pull_and_log.json
}
