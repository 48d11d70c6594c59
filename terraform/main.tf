locals {
  instance_types = setunion(var.gpu_instance_types, var.cpu_instance_types, [for shared in var.shared_targets : shared.instance_type])

  # The last says what is ours: Airflow's leak guard ends nothing without it.
  tags = merge({ Project = var.name, ManagedBy = "terraform" }, var.tags, { "batchmark:installation" = var.name })

  images = {
    for device, tag in { cuda = var.image_tag, cpu = coalesce(var.cpu_image_tag, var.image_tag) } :
    device => join(startswith(tag, "sha256:") ? "@" : ":", [module.storage.ecr_repository_url, tag])
  }

  kms_key_arn = one(module.encryption[*].key_arn)

  comparison_access = var.comparison_access == null ? null : merge({ log_group_names = ["/aws/batch/job"] }, { for key, value in var.comparison_access : key => value if value != null })

  metrics_namespace = "Batchmark/${var.name}"
}

data "aws_caller_identity" "current" {}

################################################################################
# Encryption
################################################################################

module "encryption" {
  source = "./modules/encryption"
  count  = var.create_kms_key ? 1 : 0

  name = var.name
}

################################################################################
# Network
################################################################################

module "network" {
  source = "./modules/network"
  count  = var.existing_network == null ? 1 : 0

  name                       = var.name
  instance_types             = local.instance_types
  permissions_boundary_arn   = var.permissions_boundary_arn
  iam_path                   = var.iam_path
  cidr                       = var.vpc_cidr
  availability_zones         = var.availability_zones
  enable_nat_gateway         = var.enable_nat_gateway
  enable_interface_endpoints = var.enable_interface_endpoints
  read_any_bucket            = length(var.own_jobs) > 0
  flow_log_retention_days    = var.flow_log_retention_days
  kms_key_arn                = local.kms_key_arn
}

moved {
  from = module.network
  to   = module.network[0]
}

################################################################################
# Storage
################################################################################

module "storage" {
  source = "./modules/storage"

  # The account and region keep the name unique among all of S3.
  bucket_name             = "${var.name}-results-${data.aws_caller_identity.current.account_id}-${var.region}"
  repository_name         = "${var.name}-job"
  force_destroy           = var.force_destroy
  noncurrent_version_days = var.noncurrent_version_days
  kms_key_arn             = local.kms_key_arn
}

################################################################################
# Batch
################################################################################

module "batch" {
  source = "./modules/batch"

  name = var.name
  tags = local.tags

  gpu_instance_types = var.gpu_instance_types
  cpu_instance_types = var.cpu_instance_types
  shared_targets     = var.shared_targets
  target_overrides   = var.target_overrides
  purchasing         = var.purchasing
  max_vcpus          = var.max_vcpus

  target_overrides_given = var.target_overrides

  subnet_ids         = local.subnet_ids
  security_group_ids = local.security_group_ids

  permissions_boundary_arn = var.permissions_boundary_arn
  iam_path                 = var.iam_path
  instance_policy_arns     = var.instance_policy_arns
  enable_session_manager   = var.enable_session_manager

  image                    = local.images["cuda"]
  cpu_image                = local.images["cpu"]
  ecr_repository_arn       = module.storage.ecr_repository_arn
  further_images           = compact(flatten([for job in values(var.own_jobs) : [try(job.image, null), try(values(job.images), [])]]))
  bucket_name              = module.storage.bucket_name
  bucket_arn               = module.storage.bucket_arn
  kms_key_arn              = local.kms_key_arn
  metrics_namespace        = local.metrics_namespace
  volume_size_gib          = var.volume_size_gib
  volume_throughput_mib_s  = var.volume_throughput_mib_s
  volume_iops              = var.volume_iops
  ami_release              = var.ami_release
  extra_user_data          = var.extra_user_data
  runnable_timeout_seconds = var.runnable_timeout_seconds
  log_retention_days       = var.log_retention_days
}

module "own_jobs" {
  source = "./modules/own_jobs"
  count  = length(var.own_jobs) == 0 ? 0 : 1

  # The local cloud has two targets of its own, whichever a job names for AWS.
  own_jobs       = { for name, job in var.own_jobs : name => merge(job, var.local_cloud ? { targets = [] } : {}) }
  own_jobs_given = var.own_jobs

  name                     = var.name
  targets                  = module.batch.requests
  log_group_name           = module.batch.log_group_name
  retry_rules              = module.batch.retry_rules
  pull_and_log_policy      = module.batch.pull_and_log_policy
  task_trust_policy        = module.batch.task_trust_policy
  permissions_boundary_arn = var.permissions_boundary_arn
  iam_path                 = var.iam_path
}

################################################################################
# Watching and cost
################################################################################

module "notifications" {
  source = "./modules/notifications"

  name         = var.name
  alert_emails = var.alert_emails
  kms_key_arn  = local.kms_key_arn
}

module "monitoring" {
  source = "./modules/monitoring"

  name                         = var.name
  topic_arn                    = module.notifications.topic_arn
  kms_key_arn                  = local.kms_key_arn
  job_queue_arns               = module.batch.job_queue_arns
  ecs_cluster_names            = var.idle_alarm_minutes == null ? {} : module.batch.ecs_cluster_names
  idle_minutes                 = coalesce(var.idle_alarm_minutes, 30)
  compute_environment_prefixes = var.launches_per_hour_alarm == null ? {} : module.batch.compute_environment_prefixes
  launches_per_hour            = coalesce(var.launches_per_hour_alarm, 4)
  target_names                 = keys(module.batch.targets)
  metrics_namespace            = local.metrics_namespace
  log_retention_days           = var.log_retention_days
}

module "budget" {
  source = "./modules/budget"
  count  = var.monthly_budget_usd == null ? 0 : 1

  name              = var.name
  monthly_limit_usd = var.monthly_budget_usd
  threshold_percent = var.budget_alert_percent
  topic_arn         = module.notifications.topic_arn
}

module "analytics" {
  source = "./modules/analytics"

  name        = var.name
  bucket_name = module.storage.bucket_name
  suites      = setunion(var.suites, flatten(module.own_jobs[*].suites))
  first_month = var.history_first_month
  kms_key_arn = local.kms_key_arn

  # Results expire by themselves, so nothing is lost with the workgroup but what others saved in it.
  force_destroy = true
}

################################################################################
# Airflow
################################################################################

module "airflow_access" {
  source = "./modules/airflow_access"

  name = var.name

  job_queue_arns = concat(module.batch.job_queue_arns, flatten(var.comparison_access[*].job_queue_arns))
  job_definition_arns = concat(
    [for target in module.batch.targets : target.job_definition],
    module.own_jobs[*].job_definition_arns,
    flatten(var.comparison_access[*].job_definition_arns),
  )
  log_group_names       = concat([module.batch.log_group_name], flatten(local.comparison_access[*].log_group_names))
  events_log_group_name = module.monitoring.event_log_group_name
  foreign_queues        = var.comparison_access != null

  bucket_arn           = module.storage.bucket_arn
  ecr_repository_arns  = module.batch.ecr_repository_arns
  role_arns            = concat([module.batch.job_role_arns, module.batch.execution_role_arn], flatten(module.own_jobs[*].role_arns))
  instance_profile_arn = module.batch.instance_profile_arn
  ssm_parameter_arn    = aws_ssm_parameter.airflow.arn
  topic_arn            = module.notifications.topic_arn
  kms_key_arn          = local.kms_key_arn
  principal_arns       = var.airflow_principal_arns
  external_id          = var.airflow_external_id

  permissions_boundary_arn = var.permissions_boundary_arn
  iam_path                 = var.iam_path
}

resource "aws_ssm_parameter" "airflow" {
  name        = "${var.airflow_variables_prefix}/batchmark"
  description = "Airflow variable batchmark: where to run benchmarks and where to keep their results"
  type        = "String"

  # Six targets fill a standard parameter (4 KiB); more of them need an advanced one (8 KiB).
  tier = "Intelligent-Tiering"

  # What is not set is left out, for the room and for an Airflow of an earlier release.
  value = jsonencode(merge(
    {
      for name, value in {
        monthly_cap_usd        = var.monthly_cap_usd
        comparison_definitions = var.comparison_access == null ? null : [for arn in var.comparison_access.job_definition_arns : replace(arn, "/:[0-9]+$/", "")]
      } : name => value if value != null
    },
    {
      schema_version   = 1
      name             = var.name
      region           = var.region
      bucket           = module.storage.bucket_name
      topic_arn        = module.notifications.topic_arn
      log_group        = module.batch.log_group_name
      events_log_group = module.monitoring.event_log_group_name
      targets          = module.batch.targets
    },
  ))
}

locals {
  own_jobs_document = jsonencode({
    schema_version = 1
    name           = var.name
    region         = var.region
    jobs           = merge({}, module.own_jobs[*].jobs...)
  })
}

resource "aws_ssm_parameter" "own_jobs" {
  count = length(module.own_jobs)

  name        = "${aws_ssm_parameter.airflow.name}_own_jobs"
  description = "Airflow variable batchmark_own_jobs: the jobs of yours that can be measured"
  type        = "String"
  tier        = "Intelligent-Tiering"

  value = local.own_jobs_document

  lifecycle {
    precondition {
      condition     = length(local.own_jobs_document) <= 8192
      error_message = "What Airflow is told about ${join(", ", keys(var.own_jobs))} takes ${length(local.own_jobs_document)} characters, and an SSM parameter holds 8192. Shorten their commands, name fewer targets, or spread the jobs over two installations."
    }
  }
}
