locals {
  secret_arns = distinct(flatten([for job in values(var.own_jobs) : values(job.secrets)]))

  # By the call that reads them. Behind a secret's name there may be a key in its JSON, a stage and a version.
  secrets_read = {
    for call, arns in {
      "secretsmanager:GetSecretValue" = distinct([for arn in local.secret_arns : regex("^(?:[^:]+:){6}[^:]+", arn) if strcontains(arn, ":secretsmanager:")])
      "ssm:GetParameters"             = [for arn in local.secret_arns : arn if strcontains(arn, ":ssm:")]
    } : call => arns if length(arns) > 0
  }

  secrets_kms_key_arns = sort(distinct(flatten([for job in values(var.own_jobs) : tolist(job.secrets_kms_key_arns)])))
}

data "aws_iam_policy_document" "execution" {
  source_policy_documents = [var.pull_and_log_policy]

  dynamic "statement" {
    for_each = local.secrets_read

    content {
      actions   = [statement.key]
      resources = statement.value
    }
  }

  # Only to read the secrets: through their services, in their regions.
  dynamic "statement" {
    for_each = length(local.secrets_kms_key_arns) == 0 ? [] : [local.secrets_kms_key_arns]

    content {
      actions   = ["kms:Decrypt"]
      resources = statement.value

      condition {
        test     = "StringEquals"
        variable = "kms:ViaService"
        values   = sort(distinct([for arn in local.secret_arns : "${split(":", arn)[2]}.${split(":", arn)[3]}.${data.aws_partition.current.dns_suffix}"]))
      }
    }
  }
}

resource "aws_iam_role" "execution" {
  name_prefix          = "${var.name}-own-jobs-"
  description          = "Start your own jobs in ${var.name}: pull their images, read their secrets, write logs"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = var.task_trust_policy
}

resource "aws_iam_role_policy" "execution" {
  name   = "pull-log-and-secrets"
  role   = aws_iam_role.execution.id
  policy = data.aws_iam_policy_document.execution.json
}

# No policy: where a job names no role, its SDKs find this one, and not that of the instance.
resource "aws_iam_role" "none" {
  name_prefix          = "${var.name}-no-rights-"
  description          = "Your own jobs in ${var.name} that name no role: they may call nothing"
  path                 = var.iam_path
  permissions_boundary = var.permissions_boundary_arn
  assume_role_policy   = var.task_trust_policy
}
