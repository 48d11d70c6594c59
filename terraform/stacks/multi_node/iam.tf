################################################################################
# What instances and tasks share: pulling the image, writing logs
################################################################################

# Both may, for the same reason as in the core stack, and neither may more.
data "aws_iam_policy_document" "pull_and_log" {
  statement {
    sid       = "RegistryLogin"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # the API takes no resource
  }

  statement {
    sid       = "PullImage"
    actions   = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = [data.aws_ecr_repository.job.arn]
  }

  statement {
    sid       = "WriteLogs"
    actions   = ["logs:CreateLogStream", "logs:PutLogEvents"]
    resources = ["arn:${local.partition}:logs:${var.region}:${local.account_id}:log-group:${local.core.log_group}:log-stream:${local.target}/*"]
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
  cluster_names           = ["AWSBatch-${local.prefix}-*", "${local.prefix}-*_Batch_*"]
  our_clusters            = [for name in local.cluster_names : "arn:${local.partition}:ecs:${var.region}:${local.account_id}:cluster/${name}"]
  our_container_instances = [for name in local.cluster_names : "arn:${local.partition}:ecs:${var.region}:${local.account_id}:container-instance/${name}"]
}

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

  statement {
    sid       = "ReadFileSystemId"
    actions   = ["ssm:GetParameter"]
    resources = [local.file_system_parameter_arn]
  }

  statement {
    sid       = "FindFileSystem"
    actions   = ["fsx:DescribeFileSystems"]
    resources = ["*"] # the API takes no resource
  }
}

resource "aws_iam_role" "instance" {
  name_prefix          = substr("${local.prefix}-instance-", 0, 38) # IAM takes no more
  description          = "Nodes of ${local.prefix}: join ECS, pull the job image, write logs, find their file system"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.ec2_trust.json
}

resource "aws_iam_role_policy" "instance" {
  name   = "ecs-agent-and-file-system"
  role   = aws_iam_role.instance.id
  policy = data.aws_iam_policy_document.instance.json
}

resource "aws_iam_instance_profile" "this" {
  name_prefix = "${local.prefix}-instance-"
  path        = var.iam_path
  role        = aws_iam_role.instance.name
}

resource "aws_iam_role_policy_attachment" "instance" {
  for_each = toset(var.enable_session_manager ? ["arn:${local.partition}:iam::aws:policy/AmazonSSMManagedInstanceCore"] : [])

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
      values   = ["arn:${local.partition}:ecs:${var.region}:${local.account_id}:*"]
    }
  }
}

# Images come by the file system, so a job reads nothing of the bucket.
data "aws_iam_policy_document" "job" {
  statement {
    sid = "RawResults"
    # The job tries the bucket out before it measures: it starts an upload and aborts it.
    actions   = ["s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["arn:${local.partition}:s3:::${local.core.bucket}/raw/*/${local.target}/*"]
  }

  # A document that is there stays as it is.
  statement {
    sid       = "WriteOnce"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["arn:${local.partition}:s3:::${local.core.bucket}/raw/*"]

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

  statement {
    sid       = "Telemetry"
    actions   = ["cloudwatch:PutMetricData"]
    resources = ["*"] # the API takes no resource

    condition {
      test     = "StringEquals"
      variable = "cloudwatch:namespace"
      values   = [local.metrics_namespace]
    }
  }

  # An upload in parts reads its own key back, hence Decrypt.
  dynamic "statement" {
    for_each = var.kms_key_arn[*]

    content {
      sid       = "EncryptResults"
      actions   = ["kms:Decrypt", "kms:GenerateDataKey"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["s3.${var.region}.${local.dns_suffix}"]
      }
    }
  }
}

resource "aws_iam_role" "job" {
  name_prefix          = "${local.prefix}-job-"
  description          = "Multi-node jobs of ${local.prefix}: write raw results, publish telemetry"
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
  name_prefix          = substr("${local.prefix}-execution-", 0, 38) # IAM takes no more
  description          = "Start multi-node jobs of ${local.prefix}: pull the job image, write logs"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.task_trust.json
}

resource "aws_iam_role_policy" "execution" {
  name   = "pull-and-log"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.pull_and_log.json
}

################################################################################
# What Airflow calls beside the core stack's policies
################################################################################

locals {
  fsx_arn                   = "arn:${local.partition}:fsx:${var.region}:${local.account_id}"
  file_system_parameter_arn = "arn:${local.partition}:ssm:${var.region}:${local.account_id}:parameter${var.airflow_variables_prefix}/batchmark_multi_node_file_system"

  # FSx encrypts scratch with a key of its own.
  file_system_key = startswith(local.file_system.deployment_type, "PERSISTENT") ? var.kms_key_arn : null
}

data "aws_iam_policy_document" "airflow" {
  # Any revision: a DAG run that is under way names the one from before an apply.
  statement {
    sid       = "SubmitJobs"
    actions   = ["batch:SubmitJob"]
    resources = [aws_batch_job_queue.this.arn, "arn:${local.partition}:batch:${var.region}:${local.account_id}:job-definition/${local.prefix}:*"]
  }

  statement {
    sid       = "TellNodesFileSystem"
    actions   = ["ssm:GetParameter", "ssm:PutParameter"]
    resources = [local.file_system_parameter_arn]
  }

  # FSx has no key that tells tagging at creation from tagging later, so whoever acts as Airflow could
  # claim a foreign file system by its id.
  statement {
    sid       = "CreateFileSystem"
    actions   = ["fsx:CreateFileSystem", "fsx:TagResource"]
    resources = ["${local.fsx_arn}:file-system/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/batchmark:installation"
      values   = [var.name]
    }
  }

  # Asked for twice: for the association that is new, and for the file system that gets it.
  statement {
    sid       = "CreateLink"
    actions   = ["fsx:CreateDataRepositoryAssociation", "fsx:TagResource"]
    resources = ["${local.fsx_arn}:association/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:RequestTag/batchmark:installation"
      values   = [var.name]
    }
  }

  statement {
    sid       = "LinkOwn"
    actions   = ["fsx:CreateDataRepositoryAssociation"]
    resources = ["${local.fsx_arn}:file-system/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/batchmark:installation"
      values   = [var.name]
    }
  }

  statement {
    sid       = "EndOwn"
    actions   = ["fsx:DeleteFileSystem"]
    resources = ["${local.fsx_arn}:file-system/*"]

    condition {
      test     = "StringEquals"
      variable = "aws:ResourceTag/batchmark:installation"
      values   = [var.name]
    }
  }

  statement {
    sid = "FollowFileSystem"
    actions = [
      "batch:DescribeComputeEnvironments", # whether nodes are left, which have it mounted
      "fsx:DescribeDataRepositoryAssociations",
      "fsx:DescribeDataRepositoryTasks",
      "fsx:DescribeFileSystems",
    ]
    resources = ["*"] # none of them takes a resource
  }

  # As the core stack's policy lets it look at its own.
  statement {
    sid       = "LookAtRoles"
    actions   = ["iam:GetInstanceProfile", "iam:GetRole"]
    resources = [aws_iam_role.job.arn, aws_iam_role.execution.arn, aws_iam_instance_profile.this.arn]
  }

  statement {
    sid       = "FsxRole"
    actions   = ["iam:CreateServiceLinkedRole"]
    resources = ["arn:${local.partition}:iam::${local.account_id}:role/aws-service-role/fsx.amazonaws.com/*"]

    condition {
      test     = "StringEquals"
      variable = "iam:AWSServiceName"
      values   = ["fsx.amazonaws.com"]
    }
  }

  # FSx makes a role for each linked file system, as the caller. Without all three it would look for
  # s3:PutBucketPolicy instead, and change the bucket's policy. Its network interfaces take no right of the caller's.
  statement {
    sid       = "FsxRoleForBucket"
    actions   = ["iam:AttachRolePolicy", "iam:CreateServiceLinkedRole", "iam:PutRolePolicy"]
    resources = ["arn:${local.partition}:iam::${local.account_id}:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"]
  }

  dynamic "statement" {
    for_each = local.file_system_key[*]

    content {
      sid       = "EncryptFileSystem"
      actions   = ["kms:CreateGrant", "kms:Decrypt", "kms:DescribeKey", "kms:Encrypt", "kms:GenerateDataKey*", "kms:ReEncrypt*"]
      resources = [statement.value]

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = ["fsx.${var.region}.${local.dns_suffix}"]
      }
    }
  }
}

resource "aws_iam_policy" "airflow" {
  name        = "${local.prefix}-airflow"
  description = "What Airflow calls to run ${local.prefix} jobs and their file system"
  path        = var.iam_path
  policy      = data.aws_iam_policy_document.airflow.json
}

resource "aws_iam_role_policy_attachment" "airflow" {
  for_each = var.airflow_role_arns

  role       = reverse(split("/", each.key))[0]
  policy_arn = aws_iam_policy.airflow.arn
}
