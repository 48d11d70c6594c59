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
  description = "ARN of that table"
  value       = aws_glue_catalog_table.history.arn
}

output "history_location" {
  description = "Where the history's Parquet files belong, as suite=SUITE/month=YYYY-MM/NAME.parquet below it"
  value       = aws_glue_catalog_table.history.storage_descriptor[0].location
}

output "workgroup_name" {
  description = "Athena workgroup to query it in"
  value       = aws_athena_workgroup.this.name
}

output "workgroup_arn" {
  description = "ARN of that workgroup"
  value       = aws_athena_workgroup.this.arn
}

output "saved_queries" {
  description = "What each saved query answers, by its name in Athena"
  value       = { for query in aws_athena_named_query.this : query.name => query.description }
}
