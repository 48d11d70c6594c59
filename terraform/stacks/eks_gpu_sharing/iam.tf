################################################################################
# Cluster role
################################################################################

data "aws_iam_policy_document" "cluster_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["eks.amazonaws.com"]
    }
  }
}

resource "aws_iam_role" "cluster" {
  name_prefix          = substr("${local.cluster}-cluster-", 0, 38) # IAM takes no more
  description          = "Control plane of ${local.cluster}"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.cluster_trust.json
}

resource "aws_iam_role_policy_attachment" "cluster" {
  role       = aws_iam_role.cluster.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/AmazonEKSClusterPolicy"
}

################################################################################
# Node role
################################################################################

data "aws_iam_policy_document" "node_trust" {
  statement {
    actions = ["sts:AssumeRole"]

    principals {
      type        = "Service"
      identifiers = ["ec2.amazonaws.com"]
    }
  }
}

# EKS's own images lie in an account of AWS's, so the managed policy of ECR is wider than this.
data "aws_iam_policy_document" "node" {
  statement {
    sid       = "RegistryLogin"
    actions   = ["ecr:GetAuthorizationToken"]
    resources = ["*"] # the API takes no resource
  }

  statement {
    sid     = "PullImages"
    actions = ["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]
    resources = [
      data.aws_ecr_repository.job.arn,
      "arn:${local.partition}:ecr:${var.region}:*:repository/eks/*",
      "arn:${local.partition}:ecr:${var.region}:*:repository/amazon-k8s-cni*",
      "arn:${local.partition}:ecr:${var.region}:*:repository/amazon/aws-network-policy-agent",
    ]
  }
}

resource "aws_iam_role" "node" {
  name_prefix          = "${local.cluster}-node-"
  description          = "GPU node of ${local.cluster}: join the cluster, pull images"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.node_trust.json
}

resource "aws_iam_role_policy" "node" {
  name   = "pull"
  role   = aws_iam_role.node.id
  policy = data.aws_iam_policy_document.node.json
}

resource "aws_iam_role_policy_attachment" "node" {
  for_each = setunion(
    ["AmazonEKSWorkerNodePolicy", "AmazonEKS_CNI_Policy"],
    var.enable_session_manager ? ["AmazonSSMManagedInstanceCore"] : [],
  )

  role       = aws_iam_role.node.name
  policy_arn = "arn:${local.partition}:iam::aws:policy/${each.key}"
}

################################################################################
# Job role: what a pod may do, as in Batch
################################################################################

data "aws_iam_policy_document" "job_trust" {
  statement {
    actions = ["sts:AssumeRole", "sts:TagSession"]

    principals {
      type        = "Service"
      identifiers = ["pods.eks.amazonaws.com"]
    }

    # Only for pods of this cluster: the service acts for every account.
    condition {
      test     = "StringEquals"
      variable = "aws:SourceAccount"
      values   = [local.account_id]
    }

    condition {
      test     = "ArnEquals"
      variable = "aws:SourceArn"
      values   = [local.cluster_arn]
    }
  }
}

data "aws_iam_policy_document" "job" {
  statement {
    sid = "RawResults"
    # The job tries the bucket out before it measures: it starts an upload and aborts it.
    actions   = ["s3:PutObject", "s3:AbortMultipartUpload"]
    resources = ["arn:${local.partition}:s3:::${local.bucket}/raw/*/${local.target}/*"]
  }

  # A document that is there stays as it is.
  statement {
    sid       = "WriteOnce"
    effect    = "Deny"
    actions   = ["s3:PutObject"]
    resources = ["arn:${local.partition}:s3:::${local.bucket}/raw/*"]

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
  name_prefix          = "${local.cluster}-job-"
  description          = "Benchmark pods of ${local.cluster}: write raw results"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = data.aws_iam_policy_document.job_trust.json
}

resource "aws_iam_role_policy" "job" {
  name   = "results"
  role   = aws_iam_role.job.id
  policy = data.aws_iam_policy_document.job.json
}

################################################################################
# What Airflow calls beside the core stack's policies
################################################################################

data "aws_iam_policy_document" "airflow" {
  statement {
    sid       = "FindCluster"
    actions   = ["eks:DescribeCluster"]
    resources = [local.cluster_arn]
  }

  statement {
    sid       = "StartAndEndNode"
    actions   = ["eks:DescribeNodegroup", "eks:UpdateNodegroupConfig", "eks:TagResource", "eks:UntagResource"]
    resources = ["${replace(local.cluster_arn, ":cluster/", ":nodegroup/")}/gpu/*"]
  }

  statement {
    sid       = "ReadVariable"
    actions   = ["ssm:GetParameter"]
    resources = ["arn:${local.partition}:ssm:${var.region}:${local.account_id}:parameter${var.airflow_variables_prefix}/batchmark_eks"]
  }
}

resource "aws_iam_policy" "airflow" {
  name        = "${local.cluster}-airflow"
  description = "What Airflow calls to share the GPUs of ${local.cluster}"
  path        = var.iam_path
  policy      = data.aws_iam_policy_document.airflow.json
}

resource "aws_iam_role_policy_attachment" "airflow" {
  for_each = var.airflow_role_arns

  role       = reverse(split("/", each.key))[0]
  policy_arn = aws_iam_policy.airflow.arn
}
