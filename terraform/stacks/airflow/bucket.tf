################################################################################
# DAGs, plugins and requirements
################################################################################

resource "aws_s3_bucket" "this" {
  bucket = "${local.environment}-${local.account_id}-${var.region}"

  # It holds copies of this repository only.
  force_destroy = true
}

resource "aws_s3_bucket_ownership_controls" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    object_ownership = "BucketOwnerEnforced"
  }
}

resource "aws_s3_bucket_public_access_block" "this" {
  bucket = aws_s3_bucket.this.id

  block_public_acls       = true
  block_public_policy     = true
  ignore_public_acls      = true
  restrict_public_buckets = true
}

resource "aws_s3_bucket_server_side_encryption_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    bucket_key_enabled = true

    apply_server_side_encryption_by_default {
      sse_algorithm     = var.kms_key_arn == null ? "AES256" : "aws:kms"
      kms_master_key_id = var.kms_key_arn
    }
  }
}

resource "aws_s3_bucket_versioning" "this" {
  bucket = aws_s3_bucket.this.id

  versioning_configuration {
    status = "Enabled"
  }
}

resource "aws_s3_bucket_lifecycle_configuration" "this" {
  bucket = aws_s3_bucket.this.id

  rule {
    id     = "old-versions"
    status = "Enabled"

    filter {}

    noncurrent_version_expiration {
      noncurrent_days = 30
    }

    abort_incomplete_multipart_upload {
      days_after_initiation = 7
    }
  }

  # S3 refuses rules on old versions until there can be any.
  depends_on = [aws_s3_bucket_versioning.this]
}

data "aws_iam_policy_document" "bucket" {
  statement {
    sid       = "TlsOnly"
    effect    = "Deny"
    actions   = ["s3:*"]
    resources = [aws_s3_bucket.this.arn, "${aws_s3_bucket.this.arn}/*"]

    principals {
      type        = "*"
      identifiers = ["*"]
    }

    condition {
      test     = "Bool"
      variable = "aws:SecureTransport"
      values   = ["false"]
    }
  }
}

resource "aws_s3_bucket_policy" "this" {
  bucket = aws_s3_bucket.this.id
  policy = data.aws_iam_policy_document.bucket.json

  # Both edit the bucket's access settings, and S3 answers 409 when that happens at once.
  depends_on = [aws_s3_bucket_public_access_block.this]
}

resource "aws_s3_object" "dags" {
  for_each = fileset("${local.repository}/dags", "*.py")

  bucket      = aws_s3_bucket.this.id
  key         = "dags/${each.key}"
  source      = "${local.repository}/dags/${each.key}"
  source_hash = filemd5("${local.repository}/dags/${each.key}")

  depends_on = [aws_s3_bucket_server_side_encryption_configuration.this]
}

resource "aws_s3_object" "requirements" {
  bucket      = aws_s3_bucket.this.id
  key         = "requirements.txt"
  source      = "${path.module}/requirements.txt"
  source_hash = filemd5("${path.module}/requirements.txt")

  # MWAA names a version, so there has to be one.
  depends_on = [aws_s3_bucket_versioning.this, aws_s3_bucket_server_side_encryption_configuration.this]
}

resource "aws_s3_object" "plugins" {
  bucket      = aws_s3_bucket.this.id
  key         = "plugins.zip"
  source      = var.plugins_zip_path
  source_hash = filemd5(var.plugins_zip_path)

  depends_on = [aws_s3_bucket_versioning.this, aws_s3_bucket_server_side_encryption_configuration.this]
}
