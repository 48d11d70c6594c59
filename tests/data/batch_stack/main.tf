# What stacks of others have of Batch, and the core stack has not.

terraform {
  required_providers {
    aws = {
      source = "hashicorp/aws"
    }
  }
}

provider "aws" {
  region                      = "us-east-1"
  skip_credentials_validation = true
  skip_metadata_api_check     = true
  max_retries                 = 2
}

resource "aws_vpc_dhcp_options" "named" {
  domain_name = "local"
  tags        = { Name = "options" }
}

data "aws_subnets" "all" {}

data "aws_security_groups" "all" {}

resource "aws_iam_role" "batch" {
  name = "stack-batch"
  assume_role_policy = jsonencode({
    Version = "2012-10-17"
    Statement = [{
      Effect    = "Allow"
      Action    = "sts:AssumeRole"
      Principal = { Service = "batch.amazonaws.com" }
    }]
  })
}

resource "aws_batch_compute_environment" "own" {
  compute_environment_name = "stack-own"
  type                     = "MANAGED"
  service_role             = aws_iam_role.batch.arn

  compute_resources {
    type               = "FARGATE"
    max_vcpus          = 4
    subnets            = data.aws_subnets.all.ids
    security_group_ids = data.aws_security_groups.all.ids
  }
}

resource "aws_batch_job_queue" "own" {
  name     = "stack-own"
  state    = "ENABLED"
  priority = 1

  compute_environment_order {
    order               = 1
    compute_environment = aws_batch_compute_environment.own.arn
  }
}

resource "aws_batch_job_definition" "job" {
  name = "stack-job"
  type = "container"

  container_properties = jsonencode({
    image   = "image"
    command = ["echo", "from a stack"]
    vcpus   = 1
    memory  = 16
  })

  retry_strategy {
    attempts = 2

    evaluate_on_exit {
      action           = "RETRY"
      on_status_reason = "Host EC2*"
    }

    evaluate_on_exit {
      action    = "EXIT"
      on_reason = "*"
    }
  }
}
