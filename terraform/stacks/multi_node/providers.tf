provider "aws" {
  region = var.region

  # As in the core stack: what a local cloud lacks.
  skip_credentials_validation = var.local_cloud
  skip_metadata_api_check     = var.local_cloud
  max_retries                 = var.local_cloud ? 4 : 25

  default_tags {
    tags = local.tags
  }
}
