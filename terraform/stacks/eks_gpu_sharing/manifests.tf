# Without a provider for Kubernetes they are rendered here and applied by kubectl.
locals {
  manifests = join("---\n", [
    for name in ["namespace", "access", "device_plugin"] : templatefile("${path.module}/manifests/${name}.yaml.tftpl", {
      namespace        = var.namespace
      pod_account      = local.pod_account
      airflow_group    = local.airflow_group
      image            = var.device_plugin_image
      replicas_per_gpu = var.replicas_per_gpu
    })
  ])
}
