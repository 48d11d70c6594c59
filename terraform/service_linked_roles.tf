# Roles that belong to the account, which a new one lacks. AWS makes all but Spot's on first use, where
# the caller may create service-linked roles. They outlive every installation, so they are not made here.
locals {
  buys_spot = anytrue([
    for type in setunion(var.gpu_instance_types, var.cpu_instance_types) :
    coalesce(try(var.target_overrides[type].purchasing, null), var.purchasing) != "on_demand"
  ])

  service_linked_roles = merge(
    {
      "autoscaling.amazonaws.com" = "AWSServiceRoleForAutoScaling"
      "batch.amazonaws.com"       = "AWSServiceRoleForBatch"
      "ecs.amazonaws.com"         = "AWSServiceRoleForECS"
    },
    local.buys_spot ? { "spot.amazonaws.com" = "AWSServiceRoleForEC2Spot" } : {},
  )
}

# A check, which only warns: without iam:ListRoles nothing can be said.
check "service_linked_roles" {
  data "aws_iam_roles" "service_linked" {
    path_prefix = "/aws-service-role/"
  }

  assert {
    condition = var.local_cloud || length(setsubtract(values(local.service_linked_roles), data.aws_iam_roles.service_linked.names)) == 0
    error_message = "This account does not have all roles that Batch works with. Before the first apply: ${join("; ", [
      for service, role in local.service_linked_roles : "aws iam create-service-linked-role --aws-service-name ${service}"
      if !contains(data.aws_iam_roles.service_linked.names, role)
    ])}"
  }
}
