data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

# What the core stack published.
data "aws_ssm_parameter" "core" {
  name = "${var.airflow_variables_prefix}/batchmark"

  lifecycle {
    postcondition {
      condition     = try(jsondecode(self.insecure_value).schema_version, null) == 1
      error_message = "${self.name} has schema_version ${try(jsondecode(self.insecure_value).schema_version, "none")}, and this stack reads 1. Apply the core stack and this one from the same commit."
    }

    postcondition {
      condition     = try(jsondecode(self.insecure_value).name, null) == var.name
      error_message = "${self.name} belongs to installation \"${try(jsondecode(self.insecure_value).name, "none")}\", and name is \"${var.name}\". Give the name and the airflow_variables_prefix of the same installation."
    }
  }
}

locals {
  account_id  = data.aws_caller_identity.current.account_id
  partition   = data.aws_partition.current.partition
  dns_suffix  = data.aws_partition.current.dns_suffix
  environment = "${var.name}-airflow"

  repository = "${path.module}/../../.."
}

################################################################################
# Network
################################################################################

data "aws_subnets" "private" {
  count = length(var.subnet_ids) == 0 ? 1 : 0

  filter {
    name   = "tag:Name"
    values = ["${var.name}-private-*"]
  }

  filter {
    name   = "tag:Project"
    values = [var.name]
  }
}

locals {
  subnet_ids = length(var.subnet_ids) > 0 ? tolist(var.subnet_ids) : slice(sort(data.aws_subnets.private[0].ids), 0, min(2, length(data.aws_subnets.private[0].ids)))
}

data "aws_subnet" "this" {
  for_each = toset(local.subnet_ids)

  id = each.key
}

resource "aws_security_group" "this" {
  name_prefix = "${local.environment}-"
  description = "MWAA: its own parts among each other, and HTTPS out"
  vpc_id      = values(data.aws_subnet.this)[0].vpc_id

  tags = { Name = local.environment }

  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = length(data.aws_subnet.this) == 2 && length(distinct([for subnet in data.aws_subnet.this : subnet.availability_zone])) == 2
      error_message = "MWAA takes two subnets in two zones, and these are ${jsonencode({ for id, subnet in data.aws_subnet.this : id => subnet.availability_zone })}. Give two in subnet_ids, or none for those of the core stack."
    }

    precondition {
      condition     = !anytrue([for subnet in data.aws_subnet.this : subnet.map_public_ip_on_launch])
      error_message = "MWAA takes private subnets only, and of ${join(", ", local.subnet_ids)} at least one gives out public addresses. Give two private ones in subnet_ids."
    }
  }
}

resource "aws_vpc_security_group_ingress_rule" "self" {
  security_group_id            = aws_security_group.this.id
  description                  = "Workers, schedulers, the web server and MWAA's endpoints"
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_ingress_rule" "users" {
  for_each = var.webserver_access_mode == "PRIVATE_ONLY" ? var.user_cidrs : []

  security_group_id = aws_security_group.this.id
  description       = "Users of the Airflow UI"
  cidr_ipv4         = each.key
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

resource "aws_vpc_security_group_egress_rule" "self" {
  security_group_id            = aws_security_group.this.id
  description                  = "Workers, schedulers, the web server and MWAA's endpoints"
  referenced_security_group_id = aws_security_group.this.id
  ip_protocol                  = "-1"
}

resource "aws_vpc_security_group_egress_rule" "https" {
  security_group_id = aws_security_group.this.id
  description       = "AWS APIs and the package index"
  cidr_ipv4         = "0.0.0.0/0"
  ip_protocol       = "tcp"
  from_port         = 443
  to_port           = 443
}

################################################################################
# Logs
################################################################################

# MWAA would make them itself, and keep them for ever.
resource "aws_cloudwatch_log_group" "this" {
  for_each = toset(["DAGProcessing", "Scheduler", "Task", "WebServer", "Worker"])

  name              = "airflow-${local.environment}-${each.key}"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

################################################################################
# Environment
################################################################################

resource "aws_mwaa_environment" "this" {
  name              = local.environment
  airflow_version   = var.airflow_version
  environment_class = var.environment_class
  kms_key           = var.kms_key_arn

  min_workers = 1
  max_workers = var.max_workers
  schedulers  = var.environment_class == "mw1.micro" ? 1 : 2

  webserver_access_mode           = var.webserver_access_mode
  weekly_maintenance_window_start = var.weekly_maintenance_window_start
  execution_role_arn              = aws_iam_role.this.arn

  source_bucket_arn              = aws_s3_bucket.this.arn
  dag_s3_path                    = "dags/"
  requirements_s3_path           = aws_s3_object.requirements.key
  requirements_s3_object_version = aws_s3_object.requirements.version_id
  plugins_s3_path                = aws_s3_object.plugins.key
  plugins_s3_object_version      = aws_s3_object.plugins.version_id

  airflow_configuration_options = merge(
    {
      "core.load_examples" = "False"
      "secrets.backend"    = "airflow.providers.amazon.aws.secrets.systems_manager.SystemsManagerParameterStoreBackend"

      # Without the nulls it would ask for a parameter per connection and option too.
      "secrets.backend_kwargs" = jsonencode({
        connections_prefix = null
        config_prefix      = null
        variables_prefix   = var.airflow_variables_prefix
        region_name        = var.region
      })
    },
    var.airflow_configuration_options,
  )

  network_configuration {
    security_group_ids = [aws_security_group.this.id]
    subnet_ids         = local.subnet_ids
  }

  logging_configuration {
    dag_processing_logs {
      enabled   = true
      log_level = var.log_level
    }

    scheduler_logs {
      enabled   = true
      log_level = var.log_level
    }

    task_logs {
      enabled   = true
      log_level = "INFO" # what a job's task says about it
    }

    webserver_logs {
      enabled   = true
      log_level = var.log_level
    }

    worker_logs {
      enabled   = true
      log_level = var.log_level
    }
  }

  # MWAA tries its role, its bucket and its way out when it is made, and ends in CREATE_FAILED.
  depends_on = [
    aws_cloudwatch_log_group.this,
    aws_iam_role_policy.this,
    aws_iam_role_policy_attachment.core,
    aws_s3_bucket_policy.this,
    aws_s3_bucket_public_access_block.this,
    aws_s3_bucket_versioning.this,
    aws_s3_object.dags,
    aws_vpc_security_group_egress_rule.https,
    aws_vpc_security_group_egress_rule.self,
    aws_vpc_security_group_ingress_rule.self,
  ]

  lifecycle {
    precondition {
      condition     = var.environment_class != "mw1.micro" || var.max_workers == 1
      error_message = "max_workers is ${var.max_workers}, but mw1.micro has one worker and no more. Set it to 1, or take a larger environment_class."
    }
  }
}
