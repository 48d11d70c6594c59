mock_data "aws_caller_identity" {
  defaults = { account_id = "111122223333" }
}

mock_data "aws_region" {
  defaults = { name = "us-east-1" }
}

mock_data "aws_partition" {
  defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
}

mock_data "aws_iam_policy_document" {
  defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
}

mock_resource "aws_iam_role" {
  defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
}

mock_resource "aws_batch_job_definition" {
  defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1" }
}
