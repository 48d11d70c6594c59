output "budget_name" {
  description = "The budget"
  value       = aws_budgets_budget.this.name
}
