locals {
  tags = merge({ Project = var.name, ManagedBy = "terraform" }, var.tags, { "batchmark:installation" = var.name })
}

data "aws_caller_identity" "current" {}

################################################################################
# Results
################################################################################

module "storage" {
  source = "../../modules/storage"

  # As the core stack's: one installation has one bucket, whichever stack makes it.
  bucket_name   = "${var.name}-results-${data.aws_caller_identity.current.account_id}-${var.region}"
  force_destroy = var.force_destroy
}

################################################################################
# Airflow
################################################################################

module "airflow_access" {
  source = "../../modules/airflow_access"

  name = var.name

  job_queue_arns      = var.job_queue_arns
  job_definition_arns = var.job_definition_arns
  log_group_names     = var.log_group_names
  foreign_queues      = true

  bucket_arn        = module.storage.bucket_arn
  ssm_parameter_arn = aws_ssm_parameter.airflow.arn
  principal_arns    = var.airflow_principal_arns
  external_id       = var.airflow_external_id

  permissions_boundary_arn = var.permissions_boundary_arn
  iam_path                 = var.iam_path
}

resource "aws_ssm_parameter" "airflow" {
  name        = "${var.airflow_variables_prefix}/batchmark"
  description = "Airflow variable batchmark: where to keep the results of comparisons"
  type        = "String"

  # Fifty definitions fill a standard parameter (4 KiB).
  tier = "Intelligent-Tiering"

  value = jsonencode(merge(
    { for name, value in { monthly_cap_usd = var.monthly_cap_usd } : name => value if value != null },
    {
      schema_version = 1
      name           = var.name
      region         = var.region
      bucket         = module.storage.bucket_name
      targets        = {}

      comparison_definitions = [for arn in var.job_definition_arns : replace(arn, "/:[0-9]+$/", "")]
    },
  ))
}
