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
    condition     = aws_s3_bucket.this.force_destroy == false && aws_ecr_repository.this[0].force_delete == false
    error_message = "a destroy does not take results with it unless told so"
  }

  assert {
    condition     = [for rule in aws_s3_bucket_lifecycle_configuration.this.rule : [rule.id, length(rule.expiration)]] == [["old-versions", 1], ["query-results", 1], ["unfinished-uploads", 0]] && aws_s3_bucket_lifecycle_configuration.this.rule[0].expiration[0].expired_object_delete_marker
    error_message = "no current version of a result ever expires: history is rebuilt from them"
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this.rule[1].filter[0].prefix == "athena-results/" && aws_s3_bucket_lifecycle_configuration.this.rule[1].expiration[0].days == 30
    error_message = "Athena's answers expire"
  }

  assert {
    condition     = aws_s3_bucket_lifecycle_configuration.this.rule[0].noncurrent_version_expiration[0].noncurrent_days == 30
    error_message = "old versions expire"
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
    condition     = [for statement in data.aws_iam_policy_document.bucket.statement : [statement.sid, statement.effect, statement.actions, statement.resources]] == [for sid in ["TlsOnly", "Tls12OrLater"] : [sid, "Deny", toset(["s3:*"]), toset(["arn:aws:s3:::results", "arn:aws:s3:::results/*"])]]
    error_message = "both statements deny everything, on the bucket and its objects"
  }

  assert {
    condition = one(data.aws_iam_policy_document.bucket.statement[1].condition) == {
      test     = "NumericLessThan"
      variable = "s3:TlsVersion"
      values   = tolist(["1.2"])
    }
    error_message = "it denies what comes by an old TLS"
  }

  assert {
    condition     = aws_ecr_repository.this[0].image_scanning_configuration[0].scan_on_push && aws_ecr_repository.this[0].image_tag_mutability == "IMMUTABLE"
    error_message = "images are scanned, and a tag never moves"
  }

  assert {
    condition     = [for rule in jsondecode(aws_ecr_lifecycle_policy.this[0].policy).rules : rule.selection.countNumber] == [7, 20]
    error_message = "untagged and old images expire"
  }
}

run "force_destroy_and_a_key" {
  command = plan

  variables {
    force_destroy = true
    kms_key_arn   = "arn:aws:kms:us-east-1:111122223333:key/1"
  }

  assert {
    condition = one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default) == {
      sse_algorithm     = "aws:kms"
      kms_master_key_id = "arn:aws:kms:us-east-1:111122223333:key/1"
    }
    error_message = "results are encrypted with the key"
  }

  assert {
    condition     = one(aws_s3_bucket_server_side_encryption_configuration.this.rule).bucket_key_enabled
    error_message = "not every object costs a call to KMS"
  }

  assert {
    condition     = [for configuration in aws_ecr_repository.this[0].encryption_configuration : [configuration.encryption_type, configuration.kms_key]] == [["KMS", "arn:aws:kms:us-east-1:111122223333:key/1"]]
    error_message = "images are encrypted with the key"
  }

  assert {
    condition     = aws_s3_bucket.this.force_destroy && aws_ecr_repository.this[0].force_delete
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

run "without_a_repository" {
  command = plan

  variables {
    repository_name = null
  }

  assert {
    condition     = length(aws_ecr_repository.this) == 0 && length(aws_ecr_lifecycle_policy.this) == 0 && output.ecr_repository_arn == null && output.ecr_repository_url == null
    error_message = "who brings images from elsewhere has no repository"
  }
}
