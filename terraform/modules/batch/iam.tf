################################################################################
# What instances and tasks share: pulling the image, writing logs
################################################################################

locals {
  # By account, region and name. Other registries know nothing of roles.
  further_repositories = concat([], [
    for image in sort(var.further_images) : regexall("^([0-9]{12})\\.dkr\\.ecr\\.([a-z0-9-]+)\\.amazonaws\\.com(?:\\.cn)?/([^:@]+)", image)
  ]...)

  repository_arns = distinct(concat(
    [var.ecr_repository_arn],
    [for parts in local.further_repositories : "arn:${local.partition}:ecr:${parts[1]}:${parts[0]}:repository/${parts[2]}"],
  ))
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

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["${aws_cloudwatch_log_group.this.arn}:log-stream:*"]
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

# Batch names a cluster after its compute environment, with something of its own before or behind.
locals {
  our_clusters            = "arn:${local.partition}:ecs:${local.region}:${local.account_id}:cluster/*${var.name}-*"
  our_container_instances = "arn:${local.partition}:ecs:${local.region}:${local.account_id}:container-instance/*${var.name}-*"
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
    resources = [local.our_clusters]
  }

  statement {
    sid       = "TakeTasks"
    actions   = ["ecs:Poll", "ecs:StartTelemetrySession", "ecs:UpdateContainerInstancesState"]
    resources = [local.our_container_instances]

    condition {
      test     = "ArnLike"
      variable = "ecs:cluster"
      values   = [local.our_clusters]
    }
  }

  statement {
    sid       = "TagItself"
    actions   = ["ecs:TagResource"]
    resources = [local.our_container_instances]

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

data "aws_iam_policy_document" "job" {
  statement {
    sid = "RawResults"
    # The job tries the bucket out before it measures: it starts an upload and aborts it.
    actions   = ["s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["${var.bucket_arn}/raw/*"]
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
  name_prefix          = "${var.name}-job-"
  description          = "Benchmark jobs of ${var.name}: write raw results, publish telemetry"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.task_trust.json
}

resource "aws_iam_role_policy" "job" {
  name   = "results-and-telemetry"
  role   = aws_iam_role.job.id
  policy = data.aws_iam_policy_document.job.json
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
