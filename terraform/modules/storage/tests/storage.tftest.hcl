mock_provider "aws" {
  override_during = plan

  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::results", id = "results" }
  }

  mock_resource "aws_ecr_repository" {
    defaults = { arn = "arn:aws:ecr:us-east-1:111122223333:repository/job" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }
}

variables {
  bucket_name     = "results"
  repository_name = "job"
}

run "defaults" {
  command = plan

  assert {
    condition     = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "AES256"
    error_message = "results are encrypted"
  }

  assert {
    condition     = aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled"
    error_message = "results are versioned"
  }

  assert {
    condition = alltrue([
      aws_s3_bucket_public_access_block.this.block_public_acls,
      aws_s3_bucket_public_access_block.this.block_public_policy,
      aws_s3_bucket_public_access_block.this.ignore_public_acls,
      aws_s3_bucket_public_access_block.this.restrict_public_buckets,
    ])
    error_message = "nothing is ever public"
  }

  assert {
    condition     = aws_s3_bucket_ownership_controls.this.rule[0].object_ownership == "BucketOwnerEnforced"
    error_message = "there are no object ACLs"
  }

  assert {
    condition     = aws_s3_bucket.this.force_destroy == false && aws_ecr_repository.this.force_delete == false
    error_message = "a destroy does not take results with it unless told so"
  }

  assert {
    condition     = [for rule in aws_s3_bucket_lifecycle_configuration.this.rule : length(rule.expiration)] == [0, 0]
    error_message = "no current version ever expires: history is rebuilt from them"
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this.rule[0].noncurrent_version_expiration[0].noncurrent_days == 30
    error_message = "old versions expire"
  }

  assert {
    condition     = data.aws_iam_policy_document.bucket.statement[0].effect == "Deny" && data.aws_iam_policy_document.bucket.statement[0].actions == toset(["s3:*"])
    error_message = "the policy denies and never allows"
  }

  assert {
    condition     = data.aws_iam_policy_document.bucket.statement[0].resources == toset(["arn:aws:s3:::results", "arn:aws:s3:::results/*"])
    error_message = "it covers the bucket and its objects"
  }

  assert {
    condition = one(data.aws_iam_policy_document.bucket.statement[0].condition) == {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = tolist(["false"])
    }
    error_message = "it denies what does not come by TLS"
  }

  assert {
    condition     = aws_ecr_repository.this.image_scanning_configuration[0].scan_on_push && aws_ecr_repository.this.image_tag_mutability == "IMMUTABLE"
    error_message = "images are scanned, and a tag never moves"
  }

  assert {
    condition     = [for rule in jsondecode(aws_ecr_lifecycle_policy.this.policy).rules : rule.selection.countNumber] == [7, 20]
    error_message = "untagged and old images expire"
  }
}

run "force_destroy" {
  command = plan

  variables {
    force_destroy = true
  }

  assert {
    condition     = aws_s3_bucket.this.force_destroy && aws_ecr_repository.this.force_delete
    error_message = "both go when told so"
  }
}

run "refuses_dots" {
  command = plan

  variables {
    bucket_name = "my.results"
  }

  expect_failures = [var.bucket_name]
}

run "refuses_no_days" {
  command = plan

  variables {
    noncurrent_version_days = 0
  }

  expect_failures = [var.noncurrent_version_days]
}

run "refuses_no_images" {
  command = plan

  variables {
    images_kept = 0.5
  }

  expect_failures = [var.images_kept]
}
