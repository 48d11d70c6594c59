locals {
  tags = merge({ Project = var.name, ManagedBy = "terraform" }, var.tags)

  image = join(
    startswith(var.image_tag, "sha256:") ? "@" : ":",
    [module.storage.ecr_repository_url, var.image_tag],
  )
}

data "aws_caller_identity" "current" {}

################################################################################
# Network
################################################################################

module "network" {
  source = "./modules/network"

  name               = var.name
  cidr               = var.vpc_cidr
  availability_zones = var.availability_zones
  enable_nat_gateway = var.enable_nat_gateway
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
  target_overrides   = var.target_overrides
  max_vcpus          = var.max_vcpus

  # Public subnets cost nothing when idle; a NAT gateway costs by the hour.
  subnet_ids         = var.enable_nat_gateway ? module.network.private_subnet_ids : module.network.public_subnet_ids
  security_group_ids = [module.network.security_group_id]

  image                    = local.image
  ecr_repository_arn       = module.storage.ecr_repository_arn
  bucket_name              = module.storage.bucket_name
  bucket_arn               = module.storage.bucket_arn
  volume_size_gib          = var.volume_size_gib
  runnable_timeout_seconds = var.runnable_timeout_seconds
  log_retention_days       = var.log_retention_days
}

################################################################################
# Notifications
################################################################################

module "notifications" {
  source = "./modules/notifications"

  name         = "${var.name}-alerts"
  alert_emails = var.alert_emails
}

################################################################################
# What Airflow reads
################################################################################

resource "aws_ssm_parameter" "airflow" {
  name        = "${var.airflow_variables_prefix}/batchmark"
  description = "Airflow variable batchmark: where to run benchmarks and where to keep their results"
  type        = "String"

  # About seven targets fill a standard parameter (4 KiB); more of them need an advanced one (8 KiB).
  tier = "Intelligent-Tiering"

  value = jsonencode({
    schema_version = 1
    name           = var.name
    region         = var.region
    bucket         = module.storage.bucket_name
    topic_arn      = module.notifications.topic_arn
    log_group      = module.batch.log_group_name
    targets        = module.batch.targets
  })
}
