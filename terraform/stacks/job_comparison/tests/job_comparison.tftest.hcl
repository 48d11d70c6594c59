mock_provider "aws" {
  override_during = plan

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }

  # What the policies are made of is asserted in modules/airflow_access.
  mock_data "aws_iam_policy_document" {
    defaults = {
      json          = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
      minified_json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
    }
  }

  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::results", id = "results" }
  }

  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/mock" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
  }

  mock_resource "aws_ssm_parameter" {
    defaults = { arn = "arn:aws:ssm:us-east-1:111122223333:parameter/airflow/variables/batchmark" }
  }
}

variables {
  job_queue_arns      = ["arn:aws:batch:us-east-1:111122223333:job-queue/gpu", "arn:aws:batch:us-east-1:111122223333:job-queue/cpu"]
  job_definition_arns = ["arn:aws:batch:us-east-1:111122223333:job-definition/train"]
}

run "parameter_for_airflow" {
  command = plan

  assert {
    condition     = aws_ssm_parameter.airflow.name == "/airflow/variables/batchmark" && output.ssm_parameter_name == aws_ssm_parameter.airflow.name
    error_message = "Airflow's secrets backend looks for /airflow/variables/batchmark"
  }

  assert {
    condition = jsondecode(aws_ssm_parameter.airflow.value) == {
      schema_version = 1
      name           = "batchmark"
      region         = "us-east-1"
      bucket         = "results"
      targets        = {}

      comparison_definitions = ["arn:aws:batch:us-east-1:111122223333:job-definition/train"]
    }
    error_message = "the parameter's shape is a contract with plugins/batchmark/core/config.py: no targets, no topic and no log group of ours"
  }

  assert {
    condition     = module.storage.ecr_repository_arn == null && keys(output.airflow_policy_arns) == ["run", "watch"] && output.airflow_role_arn == null && output.bucket_name == "results"
    error_message = "there are a bucket and two policies, and nothing else"
  }
}

run "every_option" {
  command = plan

  variables {
    name                     = "team-b"
    airflow_variables_prefix = "/team-b/variables"
    airflow_principal_arns   = ["arn:aws:iam::111122223333:role/airflow-host"]
    airflow_external_id      = "team-b"
    monthly_cap_usd          = 20
    log_group_names          = ["/theirs"]
    job_definition_arns      = ["arn:aws:batch:us-east-1:111122223333:job-definition/train-*", "arn:aws:batch:us-east-1:111122223333:job-definition/tell:7"]
    force_destroy            = true
    iam_path                 = "/research/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
  }

  assert {
    condition     = aws_ssm_parameter.airflow.name == "/team-b/variables/batchmark" && jsondecode(aws_ssm_parameter.airflow.value).monthly_cap_usd == 20 && jsondecode(aws_ssm_parameter.airflow.value).name == "team-b"
    error_message = "two installations in one account must not meet"
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).comparison_definitions == ["arn:aws:batch:us-east-1:111122223333:job-definition/tell", "arn:aws:batch:us-east-1:111122223333:job-definition/train-*"]
    error_message = "Airflow is told what may be compared, whatever the revision"
  }

  assert {
    condition     = aws_ssm_parameter.airflow.tier == "Intelligent-Tiering"
    error_message = "many definitions need an advanced parameter"
  }

  assert {
    condition     = output.airflow_role_arn != null
    error_message = "the role is there for its principals"
  }
}

run "refuses_another_region" {
  command = plan

  variables {
    job_queue_arns      = ["arn:aws:batch:eu-west-1:111122223333:job-queue/gpu"]
    job_definition_arns = ["train"]
  }

  expect_failures = [var.job_queue_arns, var.job_definition_arns]
}

run "refuses_what_can_not_be_meant" {
  command = plan

  variables {
    name                     = "Team"
    region                   = "us-east-1a"
    tags                     = { "aws:mine" = "1" }
    monthly_cap_usd          = 0
    airflow_variables_prefix = "/airflow/variables/"
    permissions_boundary_arn = "boundary"
    iam_path                 = "research"
    job_queue_arns           = ["arn:aws:batch:us-east-1a:111122223333:job-queue/gpu"]
    job_definition_arns      = ["arn:aws:batch:us-east-1a:111122223333:job-definition/train"]
  }

  expect_failures = [
    var.name,
    var.region,
    var.tags,
    var.monthly_cap_usd,
    var.airflow_variables_prefix,
    var.permissions_boundary_arn,
    var.iam_path,
  ]
}
