provider "aws" {
  region = var.region

  # A local cloud has no metadata service, no virtual-hosted bucket names, and answers a call it
  # does not know with a 500 that the provider would otherwise retry for minutes.
  s3_use_path_style           = var.local_cloud
  skip_credentials_validation = var.local_cloud
  skip_metadata_api_check     = var.local_cloud
  max_retries                 = var.local_cloud ? 4 : 25

  default_tags {
    tags = local.tags
  }
}
