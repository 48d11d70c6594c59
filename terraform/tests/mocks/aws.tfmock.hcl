mock_data "aws_caller_identity" {
  defaults = { account_id = "111122223333" }
}

mock_data "aws_region" {
  defaults = { name = "us-east-1" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
}

mock_data "aws_availability_zones" {
  defaults = { names = ["us-east-1a", "us-east-1b", "us-east-1c"] }
}

mock_data "aws_ec2_instance_type_offerings" {
  defaults = { locations = ["us-east-1a", "us-east-1b", "us-east-1c"] }
}

mock_data "aws_iam_roles" {
  defaults = {
    names = ["AWSServiceRoleForAutoScaling", "AWSServiceRoleForBatch", "AWSServiceRoleForEC2Spot", "AWSServiceRoleForECS"]
  }
}

mock_data "aws_subnet" {
  defaults = { vpc_id = "vpc-0123456789abcdef0", availability_zone = "us-east-1b" }
}

mock_data "aws_security_group" {
  defaults = { vpc_id = "vpc-0123456789abcdef0" }
}

# What every policy is made of is asserted in the modules' tests.
mock_data "aws_ssm_parameter" {
  defaults = { value = "ami-00000000000000001" }
}

mock_data "aws_iam_policy_document" {
  defaults = {
    json          = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
    minified_json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
  }
}

mock_data "aws_ec2_instance_type" {
  defaults = {
    default_vcpus              = 8
    memory_size                = 16384
    supported_architectures    = ["x86_64"]
    instance_storage_supported = false
    gpus                       = [{ count = 1, manufacturer = "NVIDIA", memory_size = 16384, name = "T4" }]
  }
}

mock_resource "aws_s3_bucket" {
  defaults = { arn = "arn:aws:s3:::results", id = "results" }
}

mock_resource "aws_ecr_repository" {
  defaults = {
    arn            = "arn:aws:ecr:us-east-1:111122223333:repository/batchmark-job"
    repository_url = "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job"
  }
}

mock_resource "aws_sns_topic" {
  defaults = { arn = "arn:aws:sns:us-east-1:111122223333:batchmark-alerts" }
}

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/batchmark" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_iam_instance_profile" {
  defaults = { arn = "arn:aws:iam::111122223333:instance-profile/mock" }
}

mock_resource "aws_launch_template" {
  defaults = { id = "lt-0123456789abcdef0", latest_version = 1 }
}

mock_resource "aws_batch_compute_environment" {
  defaults = {
    arn                      = "arn:aws:batch:us-east-1:111122223333:compute-environment/mock"
    compute_environment_name = "mock"
    ecs_cluster_arn          = "arn:aws:ecs:us-east-1:111122223333:cluster/mock"
  }
}

mock_resource "aws_batch_job_queue" {
  defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-queue/mock" }
}

mock_resource "aws_batch_job_definition" {
  defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1" }
}

mock_resource "aws_cloudwatch_event_rule" {
  defaults = { arn = "arn:aws:events:us-east-1:111122223333:rule/mock" }
}

mock_resource "aws_cloudwatch_metric_alarm" {
  defaults = { arn = "arn:aws:cloudwatch:us-east-1:111122223333:alarm:mock" }
}

mock_resource "aws_iam_policy" {
  defaults = { arn = "arn:aws:iam::111122223333:policy/mock" }
}

mock_resource "aws_kms_key" {
  defaults = { arn = "arn:aws:kms:us-east-1:111122223333:key/mock" }
}

mock_resource "aws_ssm_parameter" {
  defaults = { arn = "arn:aws:ssm:us-east-1:111122223333:parameter/airflow/variables/batchmark" }
}
