mock_data "aws_caller_identity" {
  defaults = { account_id = "111122223333" }
}

mock_data "aws_region" {
  defaults = { name = "us-east-1" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
}

mock_data "aws_ssm_parameter" {
  defaults = { value = "ami-00000000000000001" }
}

mock_data "aws_iam_policy_document" {
  defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
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

mock_resource "aws_cloudwatch_log_group" {
  defaults = { arn = "arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/test" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_iam_instance_profile" {
  defaults = { arn = "arn:aws:iam::111122223333:instance-profile/mock" }
}

mock_resource "aws_launch_template" {
  defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
}

mock_resource "aws_batch_compute_environment" {
  defaults = {
    arn                      = "arn:aws:batch:us-east-1:111122223333:compute-environment/mock"
    compute_environment_name = "mock"
    ecs_cluster_arn          = "arn:aws:ecs:us-east-1:111122223333:cluster/AWSBatch-mock"
  }
}

mock_resource "aws_batch_job_queue" {
  defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-queue/mock" }
}

mock_resource "aws_batch_job_definition" {
  defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1" }
}
