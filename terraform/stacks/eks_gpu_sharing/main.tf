data "aws_caller_identity" "current" {}

data "aws_partition" "current" {}

# What the core stack published.
data "aws_ssm_parameter" "core" {
  name = "${var.airflow_variables_prefix}/batchmark"

  lifecycle {
    postcondition {
      condition     = try(jsondecode(self.insecure_value).schema_version, null) == 1
      error_message = "${self.name} has schema_version ${try(jsondecode(self.insecure_value).schema_version, "none")}, and this stack reads 1. Apply the core stack and this one from the same commit."
    }

    postcondition {
      condition     = try(jsondecode(self.insecure_value).name, null) == var.name
      error_message = "${self.name} belongs to installation \"${try(jsondecode(self.insecure_value).name, "none")}\", and name is \"${var.name}\". Give the name and the airflow_variables_prefix of the same installation."
    }
  }
}

data "aws_ecr_repository" "job" {
  name = "${var.name}-job"
}

data "aws_ec2_instance_type" "this" {
  instance_type = var.instance_type

  lifecycle {
    postcondition {
      condition     = anytrue([for gpu in self.gpus : gpu.manufacturer == "NVIDIA"])
      error_message = "${var.instance_type} has no NVIDIA GPU to share. Use a type that has one, such as g4dn.12xlarge with four."
    }

    postcondition {
      condition     = contains(self.supported_architectures, "x86_64")
      error_message = "${var.instance_type} is an Arm machine, and the job image is built for x86_64. Use an Intel or AMD type instead, such as g4dn.12xlarge."
    }
  }
}

locals {
  account_id = data.aws_caller_identity.current.account_id
  partition  = data.aws_partition.current.partition
  dns_suffix = data.aws_partition.current.dns_suffix

  # The last says what is ours, as in the core stack.
  tags = merge({ Project = var.name, ManagedBy = "terraform" }, var.tags, { "batchmark:installation" = var.name })

  cluster        = "${var.name}-gpu-sharing"
  cluster_arn    = "arn:${local.partition}:eks:${var.region}:${local.account_id}:cluster/${local.cluster}"
  bucket         = jsondecode(data.aws_ssm_parameter.core.insecure_value).bucket
  image          = join(startswith(var.image_tag, "sha256:") ? "@" : ":", [data.aws_ecr_repository.job.repository_url, var.image_tag])
  airflow_group  = "${var.name}-airflow"
  pod_account    = "benchmark"
  sharing_folder = "/var/lib/batchmark/sharing"

  # Beside the series of the same instance type in Batch, whose jobs have it for themselves.
  target = "${var.instance_type}-eks"
  gpus   = sum([for gpu in data.aws_ec2_instance_type.this.gpus : gpu.count])
}

################################################################################
# Network
################################################################################

data "aws_subnets" "core" {
  count = length(var.subnet_ids) == 0 ? 1 : 0

  filter {
    name   = "tag:Name"
    values = ["${var.name}-${var.private_subnets ? "private" : "public"}-*"]
  }

  filter {
    name   = "tag:Project"
    values = [var.name]
  }
}

locals {
  subnet_ids = length(var.subnet_ids) > 0 ? var.subnet_ids : toset(data.aws_subnets.core[0].ids)
}

data "aws_subnet" "this" {
  for_each = local.subnet_ids

  id = each.key
}

################################################################################
# Cluster
################################################################################

# EKS would make it itself, and keep it for ever.
resource "aws_cloudwatch_log_group" "this" {
  name              = "/aws/eks/${local.cluster}/cluster"
  retention_in_days = var.log_retention_days
  kms_key_id        = var.kms_key_arn
}

resource "aws_eks_cluster" "this" {
  name     = local.cluster
  version  = var.kubernetes_version
  role_arn = aws_iam_role.cluster.arn

  enabled_cluster_log_types = ["api", "audit", "authenticator", "controllerManager", "scheduler"]

  # Without it EKS installs a CoreDNS that finds no node: ours have a taint, and our pods ask the VPC's.
  bootstrap_self_managed_addons = false

  access_config {
    authentication_mode                         = "API"
    bootstrap_cluster_creator_admin_permissions = true
  }

  vpc_config {
    subnet_ids              = local.subnet_ids
    endpoint_private_access = true
    endpoint_public_access  = length(var.api_cidrs) > 0
    public_access_cidrs     = length(var.api_cidrs) > 0 ? var.api_cidrs : null
  }

  # Else a version that nobody renews costs six times as much an hour.
  upgrade_policy {
    support_type = "STANDARD"
  }

  # Without the role's policies, what EKS made can't be deleted any more.
  depends_on = [aws_cloudwatch_log_group.this, aws_iam_role_policy_attachment.cluster]

  lifecycle {
    precondition {
      condition     = length(distinct([for subnet in data.aws_subnet.this : subnet.availability_zone])) >= 2
      error_message = "EKS takes subnets of two zones or more, and these are ${jsonencode({ for id, subnet in data.aws_subnet.this : id => subnet.availability_zone })}. Give some in subnet_ids, or none for those of the core stack."
    }

    precondition {
      condition     = length(var.api_cidrs) + length(var.airflow_security_group_ids) > 0
      error_message = "Nobody would reach the cluster's API. Give Airflow's address range and your own in api_cidrs, or Airflow's security group in airflow_security_group_ids if it runs in this VPC."
    }
  }
}

resource "aws_vpc_security_group_ingress_rule" "airflow" {
  for_each = var.airflow_security_group_ids

  security_group_id            = aws_eks_cluster.this.vpc_config[0].cluster_security_group_id
  description                  = "The cluster's API, from Airflow"
  referenced_security_group_id = each.key
  ip_protocol                  = "tcp"
  from_port                    = 443
  to_port                      = 443
}

# All of them run on tainted nodes, and are content without any node.
resource "aws_eks_addon" "this" {
  for_each = toset(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"])

  cluster_name                = aws_eks_cluster.this.name
  addon_name                  = each.key
  resolve_conflicts_on_create = "OVERWRITE"
  resolve_conflicts_on_update = "OVERWRITE"
}

# What it may do there is in manifests/access.yaml.tftpl.
resource "aws_eks_access_entry" "airflow" {
  for_each = var.airflow_role_arns

  cluster_name      = aws_eks_cluster.this.name
  principal_arn     = each.key
  kubernetes_groups = [local.airflow_group]
}

resource "aws_eks_pod_identity_association" "job" {
  cluster_name    = aws_eks_cluster.this.name
  namespace       = var.namespace
  service_account = local.pod_account
  role_arn        = aws_iam_role.job.arn

  depends_on = [aws_eks_addon.this]
}

################################################################################
# GPU node
################################################################################

resource "aws_launch_template" "gpu" {
  name_prefix            = "${local.cluster}-"
  description            = "${local.cluster}: the GPU node"
  update_default_version = true

  # EKS adds its own part, so it has to be MIME multipart.
  user_data = base64encode(templatefile("${path.module}/user_data.mime.tftpl", { folder = local.sharing_folder }))

  # Two hops, because a pod is one hop further from the metadata service than its node.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.volume_size_gib
      encrypted             = true
      kms_key_id            = var.kms_key_arn
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])

    content {
      resource_type = tag_specifications.value
      tags          = merge(local.tags, { Name = "${local.cluster}-gpu", Target = local.target })
    }
  }

  lifecycle {
    create_before_destroy = true
  }
}

resource "aws_eks_node_group" "gpu" {
  cluster_name    = aws_eks_cluster.this.name
  node_group_name = "gpu"
  node_role_arn   = aws_iam_role.node.arn
  subnet_ids      = local.subnet_ids
  instance_types  = [var.instance_type]
  ami_type        = "AL2023_x86_64_NVIDIA"
  capacity_type   = "ON_DEMAND"
  version         = aws_eks_cluster.this.version

  labels = { "eks-node" = "gpu" }

  taint {
    key    = "nvidia.com/gpu"
    value  = "present"
    effect = "NO_SCHEDULE"
  }

  launch_template {
    id      = aws_launch_template.gpu.id
    version = aws_launch_template.gpu.latest_version
  }

  # The replicas share one node's GPUs and meet in a folder on it, so there is never a second one.
  scaling_config {
    min_size     = 0
    desired_size = 0
    max_size     = 1
  }

  depends_on = [aws_eks_addon.this, aws_iam_role_policy_attachment.node, aws_iam_role_policy.node]

  # The DAG starts the node and ends it.
  lifecycle {
    ignore_changes = [scaling_config[0].desired_size]
  }
}

################################################################################
# What Airflow is told
################################################################################

resource "aws_ssm_parameter" "airflow" {
  name        = "${var.airflow_variables_prefix}/batchmark_eks"
  description = "Airflow variable batchmark_eks: the cluster whose GPUs are shared"
  type        = "String"

  value = jsonencode({
    schema_version   = 1
    name             = var.name
    region           = var.region
    cluster          = aws_eks_cluster.this.name
    node_group       = aws_eks_node_group.gpu.node_group_name
    namespace        = var.namespace
    service_account  = local.pod_account
    image            = local.image
    target           = local.target
    instance_type    = var.instance_type
    gpus             = local.gpus
    vcpus            = data.aws_ec2_instance_type.this.default_vcpus
    memory_mib       = data.aws_ec2_instance_type.this.memory_size
    replicas_per_gpu = var.replicas_per_gpu
    sharing_folder   = local.sharing_folder
    timeout_seconds  = var.timeout_seconds
  })
}
