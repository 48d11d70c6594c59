locals {
  history = jsondecode(file("${path.module}/history_columns.json"))

  # Neither Glue nor Athena takes a hyphen in an unquoted name.
  database_name = replace(var.name, "-", "_")

  suites = setunion(var.suites, ["imported"]) # by hand, from other tools

  saved_queries = {
    for file in fileset("${path.module}/queries", "*.sql") : trimsuffix(file, ".sql") => templatefile(
      "${path.module}/queries/${file}", { series = join(", ", local.history.series) }
    )
  }
}

################################################################################
# History table
################################################################################

resource "aws_glue_catalog_database" "this" {
  name        = local.database_name
  description = "Benchmark history of ${var.name}"
}

resource "aws_glue_catalog_table" "history" {
  name          = "history"
  description   = "One row per measurement, with its statistics, fingerprint and cost"
  database_name = aws_glue_catalog_database.this.name
  table_type    = "EXTERNAL_TABLE"

  # Athena works the partitions out from these, so no crawler runs and none is ever added.
  parameters = {
    EXTERNAL                         = "TRUE"
    classification                   = "parquet"
    "projection.enabled"             = "true"
    "projection.suite.type"          = "enum"
    "projection.suite.values"        = join(",", sort(local.suites))
    "projection.month.type"          = "date"
    "projection.month.format"        = "yyyy-MM"
    "projection.month.range"         = "${var.first_month},NOW"
    "projection.month.interval"      = "1"
    "projection.month.interval.unit" = "MONTHS"
  }

  dynamic "partition_keys" {
    for_each = local.history.partition_keys

    content {
      name    = partition_keys.value.name
      type    = partition_keys.value.type
      comment = partition_keys.value.comment
    }
  }

  storage_descriptor {
    location      = "s3://${var.bucket_name}/history/"
    input_format  = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat"
    output_format = "org.apache.hadoop.hive.ql.io.parquet.MapredParquetOutputFormat"

    ser_de_info {
      serialization_library = "org.apache.hadoop.hive.ql.io.parquet.serde.ParquetHiveSerDe"
    }

    dynamic "columns" {
      for_each = local.history.columns

      content {
        name    = columns.value.name
        type    = columns.value.type
        comment = columns.value.comment
      }
    }
  }
}

################################################################################
# Athena
################################################################################

resource "aws_athena_workgroup" "this" {
  name          = var.name
  description   = "Queries over the benchmark history of ${var.name}"
  force_destroy = var.force_destroy

  configuration {
    # A client can choose neither another place for the results nor none of their encryption.
    enforce_workgroup_configuration    = true
    publish_cloudwatch_metrics_enabled = true
    bytes_scanned_cutoff_per_query     = var.bytes_scanned_cutoff_per_query

    engine_version {
      selected_engine_version = "Athena engine version 3"
    }

    result_configuration {
      output_location = "s3://${var.bucket_name}/athena-results/"

      encryption_configuration {
        encryption_option = var.kms_key_arn == null ? "SSE_S3" : "SSE_KMS"
        kms_key_arn       = var.kms_key_arn
      }
    }
  }
}

resource "aws_athena_named_query" "this" {
  for_each = local.saved_queries

  name        = "${var.name}-${replace(each.key, "_", "-")}"
  description = trimprefix(split("\n", each.value)[0], "-- ")
  workgroup   = aws_athena_workgroup.this.id
  database    = aws_glue_catalog_database.this.name
  query       = each.value
}
