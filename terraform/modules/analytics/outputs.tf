output "database_name" {
  description = "Glue database of the history table"
  value       = aws_glue_catalog_database.this.name
}

output "table_name" {
  description = "Glue table of the history"
  value       = aws_glue_catalog_table.history.name
}

output "suites" {
  description = "Suites that the table knows"
  value       = local.suites
}

output "table_arn" {
  description = "The history table's ARN"
  value       = aws_glue_catalog_table.history.arn
}

output "history_location" {
  description = "Folder of the history, suite=SUITE/month=YYYY-MM/NAME.parquet"
  value       = aws_glue_catalog_table.history.storage_descriptor[0].location
}

output "workgroup_name" {
  description = "Athena workgroup"
  value       = aws_athena_workgroup.this.name
}

output "workgroup_arn" {
  description = "The workgroup's ARN"
  value       = aws_athena_workgroup.this.arn
}

output "saved_queries" {
  description = "What each saved query answers, by name"
  value       = { for query in aws_athena_named_query.this : query.name => query.description }
}
