output "cluster_name" {
  description = "The EKS cluster"
  value       = aws_eks_cluster.this.name
}

output "ssm_parameter_name" {
  description = "SSM parameter that Airflow reads"
  value       = aws_ssm_parameter.airflow.name
}

output "target" {
  description = "Target that the node's results name"
  value       = local.target
}

output "pods_at_once" {
  description = "Pods that the node takes at once, without and with sharing"
  value       = { exclusive = local.gpus, time_slicing = local.gpus * var.replicas_per_gpu }
}

output "kubeconfig_command" {
  description = "Lets kubectl reach the cluster (AWS CLI 2)"
  value       = "aws eks update-kubeconfig --region ${var.region} --name ${aws_eks_cluster.this.name}"
}

output "manifests" {
  description = "What to apply in the cluster, again after each change"
  value       = local.manifests
}
