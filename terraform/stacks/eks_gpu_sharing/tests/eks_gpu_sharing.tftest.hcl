mock_provider "aws" {
  override_during = plan

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "{\"schema_version\": 1, \"name\": \"batchmark\", \"bucket\": \"results\"}" }
  }

  mock_data "aws_ecr_repository" {
    defaults = {
      arn            = "arn:aws:ecr:us-east-1:111122223333:repository/batchmark-job"
      repository_url = "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job"
    }
  }

  mock_data "aws_ec2_instance_type" {
    defaults = {
      default_vcpus           = 48
      memory_size             = 196608
      supported_architectures = ["x86_64"]
      gpus                    = [{ count = 4, manufacturer = "NVIDIA", memory_size = 16384, name = "T4" }]
    }
  }

  mock_data "aws_subnets" {
    defaults = { ids = ["subnet-a", "subnet-b"] }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
  }

  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/mock" }
  }

  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
  }

  override_data {
    target = data.aws_subnet.this["subnet-a"]
    values = { vpc_id = "vpc-1", availability_zone = "us-east-1a" }
  }

  override_data {
    target = data.aws_subnet.this["subnet-b"]
    values = { vpc_id = "vpc-1", availability_zone = "us-east-1b" }
  }
}

variables {
  airflow_role_arns = ["arn:aws:iam::111122223333:role/teams/batchmark-airflow"]
  api_cidrs         = ["203.0.113.0/24"]
}

run "cluster" {
  command = plan

  assert {
    condition     = [aws_eks_cluster.this.name, aws_eks_cluster.this.version, one(aws_eks_cluster.this.access_config).authentication_mode, one(aws_eks_cluster.this.upgrade_policy).support_type] == ["batchmark-gpu-sharing", "1.36", "API", "STANDARD"]
    error_message = "Kubernetes 1.36 in standard support, where access entries alone let people in"
  }

  assert {
    condition     = one(aws_eks_cluster.this.vpc_config).subnet_ids == toset(["subnet-a", "subnet-b"]) && one([for filter in data.aws_subnets.core[0].filter : one(filter.values) if filter.name == "tag:Name"]) == "batchmark-public-*"
    error_message = "it runs in the core stack's subnets"
  }

  assert {
    condition     = aws_eks_cluster.this.bootstrap_self_managed_addons == false && toset(keys(aws_eks_addon.this)) == toset(["eks-pod-identity-agent", "kube-proxy", "vpc-cni"])
    error_message = "there is nothing that would need a node without GPUs"
  }

  assert {
    condition     = aws_eks_access_entry.airflow["arn:aws:iam::111122223333:role/teams/batchmark-airflow"].kubernetes_groups == toset(["batchmark-airflow"]) && aws_iam_role_policy_attachment.airflow["arn:aws:iam::111122223333:role/teams/batchmark-airflow"].role == "batchmark-airflow"
    error_message = "Airflow's role gets in by its group, and the policy"
  }

  assert {
    condition     = aws_cloudwatch_log_group.this.name == "/aws/eks/batchmark-gpu-sharing/cluster" && aws_cloudwatch_log_group.this.retention_in_days == 30
    error_message = "the log group that EKS writes to has a retention"
  }

  assert {
    condition     = one(aws_eks_cluster.this.vpc_config).endpoint_private_access && one(aws_eks_cluster.this.vpc_config).endpoint_public_access && one(aws_eks_cluster.this.vpc_config).public_access_cidrs == toset(["203.0.113.0/24"])
    error_message = "its API is open to the given addresses alone"
  }

  assert {
    condition     = length(aws_eks_cluster.this.encryption_config) == 0
    error_message = "EKS encrypts what its API keeps by itself"
  }
}

run "node" {
  command = plan

  assert {
    condition     = [one(aws_eks_node_group.gpu.instance_types), aws_eks_node_group.gpu.ami_type, aws_eks_node_group.gpu.version, aws_eks_node_group.gpu.capacity_type] == ["g4dn.12xlarge", "AL2023_x86_64_NVIDIA", "1.36", "ON_DEMAND"]
    error_message = "one type, with NVIDIA's driver"
  }

  assert {
    condition     = aws_eks_node_group.gpu.labels == tomap({ "eks-node" = "gpu" }) && one(aws_eks_node_group.gpu.taint).key == "nvidia.com/gpu" && one(aws_eks_node_group.gpu.taint).effect == "NO_SCHEDULE"
    error_message = "nothing but GPU work starts on it"
  }

  assert {
    condition     = [one(aws_eks_node_group.gpu.scaling_config).min_size, one(aws_eks_node_group.gpu.scaling_config).desired_size, one(aws_eks_node_group.gpu.scaling_config).max_size] == [0, 0, 1]
    error_message = "it costs nothing until the DAG starts it, and there is never a second one"
  }

  assert {
    condition     = aws_launch_template.gpu.metadata_options[0].http_tokens == "required" && aws_launch_template.gpu.metadata_options[0].http_put_response_hop_limit == 2 && aws_launch_template.gpu.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "IMDSv2 only, and an encrypted volume"
  }

  assert {
    condition     = alltrue([for spec in aws_launch_template.gpu.tag_specifications : spec.tags["batchmark:installation"] == "batchmark" && spec.tags["Target"] == "g4dn.12xlarge-eks"])
    error_message = "the leak guard sees what bills"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.gpu.user_data), "install -d -m 1777 /var/lib/batchmark/sharing")
    error_message = "there is a folder where the replicas meet"
  }
}

run "four_gpus_of_ten_are_forty" {
  command = plan

  assert {
    condition     = output.pods_at_once == { exclusive = 4, time_slicing = 40 }
    error_message = "4 GPUs, 10 replicas of each"
  }

  assert {
    condition     = yamldecode(yamldecode(split("---\n", output.manifests)[8]).data["time_slicing.yaml"]).sharing.timeSlicing == { failRequestsGreaterThanOne = true, resources = [{ name = "nvidia.com/gpu", replicas = 10 }] }
    error_message = "the device plugin offers as many, and refuses a request of 2"
  }

  assert {
    condition     = alltrue([for mode in ["exclusive", "time_slicing"] : yamldecode(yamldecode(split("---\n", output.manifests)[8]).data["${mode}.yaml"]).flags.migStrategy == "none"]) && !strcontains(yamldecode(split("---\n", output.manifests)[8]).data["exclusive.yaml"], "sharing")
    error_message = "no MIG, and no sharing where none is asked for"
  }

  assert {
    condition = jsondecode(aws_ssm_parameter.airflow.value) == {
      schema_version   = 1
      name             = "batchmark"
      region           = "us-east-1"
      cluster          = "batchmark-gpu-sharing"
      node_group       = "gpu"
      namespace        = "gpu-demo"
      service_account  = "benchmark"
      image            = "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0"
      target           = "g4dn.12xlarge-eks"
      instance_type    = "g4dn.12xlarge"
      gpus             = 4
      vcpus            = 48
      memory_mib       = 196608
      replicas_per_gpu = 10
      sharing_folder   = "/var/lib/batchmark/sharing"
      timeout_seconds  = 1800
    }
    error_message = "Airflow is told where and how"
  }
}

run "rights" {
  command = plan

  assert {
    condition = { for statement in data.aws_iam_policy_document.job.statement : statement.sid => join(" ", concat(sort(statement.actions), sort(statement.resources))) } == {
      RawResults = "s3:AbortMultipartUpload s3:PutObject arn:aws:s3:::results/raw/*/g4dn.12xlarge-eks/*"
      WriteOnce  = "s3:PutObject arn:aws:s3:::results/raw/*"
    }
    error_message = "a pod writes raw results of its own target and nothing else"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.job.statement : join(", ", [statement.effect], sort([for condition in statement.condition : "${condition.test} ${condition.variable} ${one(condition.values)}"])) if statement.sid == "WriteOnce"] == ["Deny, Bool s3:ObjectCreationOperation true, Null s3:if-none-match true"]
    error_message = "it replaces no document"
  }

  assert {
    condition = { for condition in data.aws_iam_policy_document.job_trust.statement[0].condition : condition.variable => one(condition.values) } == {
      "aws:SourceAccount" = "111122223333"
      "aws:SourceArn"     = "arn:aws:eks:us-east-1:111122223333:cluster/batchmark-gpu-sharing"
    }
    error_message = "the job role is for pods of this cluster only"
  }

  assert {
    condition     = [aws_eks_pod_identity_association.job.namespace, aws_eks_pod_identity_association.job.service_account] == ["gpu-demo", "benchmark"]
    error_message = "and of this service account"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.airflow.statement : statement.sid => one(statement.resources) } == {
      FindCluster     = "arn:aws:eks:us-east-1:111122223333:cluster/batchmark-gpu-sharing"
      StartAndEndNode = "arn:aws:eks:us-east-1:111122223333:nodegroup/batchmark-gpu-sharing/gpu/*"
      ReadVariable    = "arn:aws:ssm:us-east-1:111122223333:parameter/airflow/variables/batchmark_eks"
    }
    error_message = "Airflow's rights end at this cluster"
  }
}

run "own_network_key_and_sizes" {
  command = plan

  variables {
    subnet_ids             = ["subnet-a", "subnet-b"]
    kms_key_arn            = "arn:aws:kms:us-east-1:111122223333:key/0123"
    kubernetes_version     = "1.35"
    replicas_per_gpu       = 48
    namespace              = "sharing"
    image_tag              = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
    enable_session_manager = true
    tags                   = { team = "research", "batchmark:installation" = "another" }
  }

  assert {
    condition     = length(data.aws_subnets.core) == 0 && one(aws_eks_cluster.this.vpc_config).subnet_ids == toset(["subnet-a", "subnet-b"])
    error_message = "given subnets are taken, and no others looked for"
  }

  assert {
    condition     = length(aws_eks_cluster.this.encryption_config) == 0 && aws_launch_template.gpu.block_device_mappings[0].ebs[0].kms_key_id == "arn:aws:kms:us-east-1:111122223333:key/0123" && aws_cloudwatch_log_group.this.kms_key_id == "arn:aws:kms:us-east-1:111122223333:key/0123"
    error_message = "the key encrypts volume and logs, and EKS, which its policy does not let in, is not told of it"
  }

  assert {
    condition     = one([for condition in [for statement in data.aws_iam_policy_document.job.statement : statement if statement.sid == "EncryptResults"][0].condition : one(condition.values)]) == "s3.us-east-1.amazonaws.com"
    error_message = "pods may use the key through S3 alone"
  }

  assert {
    condition     = aws_eks_node_group.gpu.version == "1.35" && output.pods_at_once.time_slicing == 192 && yamldecode(split("---\n", output.manifests)[0]).metadata.name == "sharing"
    error_message = "version, replicas and namespace are inputs"
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).image == "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job@sha256:0123456789012345678901234567890123456789012345678901234567890123"
    error_message = "a digest names an image, too"
  }

  assert {
    condition     = length(aws_iam_role_policy_attachment.node) == 3
    error_message = "people may open a shell on the node"
  }

  assert {
    condition     = alltrue([for spec in aws_launch_template.gpu.tag_specifications : spec.tags["team"] == "research" && spec.tags["batchmark:installation"] == "batchmark"])
    error_message = "the user's tags are taken, and never take the place of ours"
  }
}

run "refuses_what_cannot_be_shared" {
  command = plan

  variables {
    replicas_per_gpu = 1
    instance_type    = "p3.8xlarge"
  }

  expect_failures = [var.replicas_per_gpu, var.instance_type]
}

run "refuses_more_replicas_than_a_gpu_has_clients" {
  command = plan

  variables {
    replicas_per_gpu = 49
  }

  expect_failures = [var.replicas_per_gpu]
}

run "refuses_half_a_replica" {
  command = plan

  variables {
    replicas_per_gpu = 2.5
  }

  expect_failures = [var.replicas_per_gpu]
}

run "refuses_a_machine_without_gpu" {
  command = plan

  variables {
    instance_type = "m5.2xlarge"
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [], supported_architectures = ["x86_64"], default_vcpus = 8, memory_size = 32768 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_another_makers_gpu" {
  command = plan

  variables {
    instance_type = "g4ad.4xlarge"
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [{ count = 1, manufacturer = "AMD", memory_size = 8192, name = "Radeon Pro V520" }], supported_architectures = ["x86_64"], default_vcpus = 16, memory_size = 65536 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_an_arm_machine" {
  command = plan

  variables {
    instance_type = "c7g.2xlarge"
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [{ count = 1, manufacturer = "NVIDIA", memory_size = 16384, name = "T4g" }], supported_architectures = ["arm64"], default_vcpus = 4, memory_size = 8192 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_an_arm_machine_by_its_name" {
  command = plan

  variables {
    instance_type = "g5g.xlarge"
  }

  expect_failures = [var.instance_type]
}

run "takes_a_driver_that_only_the_ami_of_eks_has" {
  command = plan

  variables {
    instance_type = "g7.12xlarge"
  }
}

run "refuses_subnets_of_one_zone" {
  command = plan

  variables {
    subnet_ids = ["subnet-a"]
  }

  expect_failures = [aws_eks_cluster.this]
}

run "airflow_within_the_vpc" {
  command = plan

  variables {
    api_cidrs                  = []
    airflow_security_group_ids = ["sg-1"]
  }

  override_resource {
    target          = aws_eks_cluster.this
    values          = { vpc_config = { cluster_security_group_id = "sg-0" } }
    override_during = plan
  }

  assert {
    condition     = one(aws_eks_cluster.this.vpc_config).endpoint_public_access == false && aws_vpc_security_group_ingress_rule.airflow["sg-1"].from_port == 443 && aws_vpc_security_group_ingress_rule.airflow["sg-1"].security_group_id == "sg-0"
    error_message = "Airflow reaches the API, and nobody from outside"
  }
}

run "refuses_an_api_that_nobody_reaches" {
  command = plan

  variables {
    api_cidrs = []
  }

  expect_failures = [aws_eks_cluster.this]
}

run "refuses_what_is_malformed" {
  command = plan

  variables {
    name                       = "Batchmark"
    airflow_role_arns          = ["batchmark-airflow"]
    airflow_variables_prefix   = "airflow/"
    airflow_security_group_ids = ["default"]
    api_cidrs                  = ["everywhere"]
    device_plugin_image        = "nvcr.io/nvidia/k8s-device-plugin:v0.20.0"
    iam_path                   = "research"
    image_tag                  = "a b"
    kms_key_arn                = "alias/results"
    kubernetes_version         = "1.34"
    log_retention_days         = 31
    namespace                  = "kube-system"
    permissions_boundary_arn   = "boundary"
    region                     = "us-east-1a"
    subnet_ids                 = ["vpc-1"]
    tags                       = { "aws:owner" = "me" }
    timeout_seconds            = 30
    volume_size_gib            = 8
  }

  expect_failures = [
    var.name,
    var.airflow_role_arns,
    var.airflow_variables_prefix,
    var.airflow_security_group_ids,
    var.api_cidrs,
    var.device_plugin_image,
    var.iam_path,
    var.image_tag,
    var.kms_key_arn,
    var.kubernetes_version,
    var.log_retention_days,
    var.namespace,
    var.permissions_boundary_arn,
    var.region,
    var.subnet_ids,
    var.tags,
    var.timeout_seconds,
    var.volume_size_gib,
  ]
}

run "refuses_another_installations_parameter" {
  command = plan

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 2, \"name\": \"another\", \"bucket\": \"results\"}" }
  }

  expect_failures = [data.aws_ssm_parameter.core]
}

# The provider refuses names that are too long for AWS.
run "longest_name" {
  command = plan

  variables {
    name = "longest-installation"
  }

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 1, \"name\": \"longest-installation\", \"bucket\": \"results\"}" }
  }

  assert {
    condition     = aws_iam_role.cluster.name_prefix == "longest-installation-gpu-sharing-clust"
    error_message = "the longest prefix is cut"
  }
}
