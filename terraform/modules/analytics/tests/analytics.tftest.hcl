mock_provider "aws" {
  override_during = plan

  mock_resource "aws_athena_workgroup" {
    defaults = { id = "bench-mark" }
  }
}

variables {
  name        = "bench-mark"
  bucket_name = "results"
}

run "defaults" {
  command = plan

  assert {
    condition     = aws_glue_catalog_database.this.name == "bench_mark" && output.table_name == "history"
    error_message = "Glue's names need no quotes in SQL"
  }

  assert {
    condition     = output.history_location == "s3://results/history/"
    error_message = "the table lies over the history"
  }

  assert {
    condition     = [for key in aws_glue_catalog_table.history.partition_keys : "${key.name} ${key.type}"] == ["suite string", "month string"]
    error_message = "history is partitioned by suite and month"
  }

  assert {
    condition = aws_glue_catalog_table.history.parameters == tomap({
      EXTERNAL                         = "TRUE"
      classification                   = "parquet"
      "projection.enabled"             = "true"
      "projection.suite.type"          = "enum"
      "projection.suite.values"        = "blog,building_blocks,imported,own,precision,sam,scaling,sharing,smoke,training"
      "projection.month.type"          = "date"
      "projection.month.format"        = "yyyy-MM"
      "projection.month.range"         = "2026-01,NOW"
      "projection.month.interval"      = "1"
      "projection.month.interval.unit" = "MONTHS"
    })
    error_message = "partitions are projected, and nothing else is set"
  }

  assert {
    condition     = alltrue([for column in aws_glue_catalog_table.history.storage_descriptor[0].columns : length(column.comment) > 0 && length(column.comment) <= 255])
    error_message = "every column says what it is, in no more than Glue takes"
  }

  assert {
    condition     = contains([for column in aws_glue_catalog_table.history.storage_descriptor[0].columns : "${column.name} ${column.type}"], "median_seconds double")
    error_message = "columns come from history_columns.json"
  }

  assert {
    condition     = aws_athena_workgroup.this.configuration[0].enforce_workgroup_configuration && aws_athena_workgroup.this.configuration[0].publish_cloudwatch_metrics_enabled
    error_message = "clients can't override the workgroup, and its use is measured"
  }

  assert {
    condition     = aws_athena_workgroup.this.configuration[0].bytes_scanned_cutoff_per_query == 1073741824
    error_message = "a query that scans too much is cancelled"
  }

  assert {
    condition     = aws_athena_workgroup.this.configuration[0].engine_version[0].selected_engine_version == "Athena engine version 3"
    error_message = "the engine is the one that the queries are written for"
  }

  assert {
    condition     = aws_athena_workgroup.this.configuration[0].result_configuration[0].output_location == "s3://results/athena-results/"
    error_message = "results stay out of the history"
  }

  assert {
    condition     = one(aws_athena_workgroup.this.configuration[0].result_configuration[0].encryption_configuration) == { encryption_option = "SSE_S3", kms_key_arn = tostring(null) }
    error_message = "results are encrypted"
  }

  assert {
    condition     = aws_athena_workgroup.this.force_destroy == false
    error_message = "a destroy does not take others' queries with it unless told so"
  }

  assert {
    condition     = keys(output.saved_queries) == ["bench-mark-crossover", "bench-mark-noise-per-series", "bench-mark-price-per-target", "bench-mark-slowest-regressions"]
    error_message = "every file in queries/ is saved"
  }

  assert {
    condition = alltrue([
      for query in aws_athena_named_query.this :
      query.database == "bench_mark" && query.workgroup == "bench-mark" && strcontains(query.query, "FROM history") && strcontains(query.query, "suite, workload, parameters") && !strcontains(query.query, "$") && length(query.query) < 262144
    ])
    error_message = "saved queries are rendered and read the history"
  }

  assert {
    condition     = alltrue([for query in aws_athena_named_query.this : length(query.description) > 20 && length(query.description) <= 1024 && startswith(query.query, "-- ${query.description}\n")])
    error_message = "a saved query's description is its first comment"
  }
}

run "settings" {
  command = plan

  variables {
    kms_key_arn                    = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    force_destroy                  = true
    suites                         = ["nightly", "blog"]
    first_month                    = "2027-03"
    bytes_scanned_cutoff_per_query = 10485760
  }

  assert {
    condition = one(aws_athena_workgroup.this.configuration[0].result_configuration[0].encryption_configuration) == {
      encryption_option = "SSE_KMS"
      kms_key_arn       = "arn:aws:kms:us-east-1:111122223333:key/1234abcd-12ab-34cd-56ef-1234567890ab"
    }
    error_message = "results are encrypted with the given key"
  }

  assert {
    condition     = aws_athena_workgroup.this.force_destroy && aws_athena_workgroup.this.configuration[0].bytes_scanned_cutoff_per_query == 10485760
    error_message = "the workgroup goes when told so, and takes the least cutoff"
  }

  assert {
    condition     = aws_glue_catalog_table.history.parameters["projection.suite.values"] == "blog,imported,nightly" && aws_glue_catalog_table.history.parameters["projection.month.range"] == "2027-03,NOW"
    error_message = "the projection follows suites and first month, and always has what was imported"
  }
}

run "refuses_what_aws_would" {
  command = plan

  variables {
    name                           = "Bench"
    suites                         = ["smoke,blog"]
    first_month                    = "2026-13"
    bytes_scanned_cutoff_per_query = 1000000
  }

  expect_failures = [var.name, var.suites, var.first_month, var.bytes_scanned_cutoff_per_query]
}

run "refuses_no_suites" {
  command = plan

  variables {
    suites = []
  }

  expect_failures = [var.suites]
}
