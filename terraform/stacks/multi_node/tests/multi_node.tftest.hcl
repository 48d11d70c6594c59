mock_provider "aws" {
  override_during = plan

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_region" {
    defaults = { name = "us-east-1" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_ecr_repository" {
    defaults = {
      arn            = "arn:aws:ecr:us-east-1:111122223333:repository/batchmark-job"
      repository_url = "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job"
    }
  }

  mock_data "aws_ec2_instance_type" {
    defaults = {
      default_vcpus                  = 48
      memory_size                    = 196608
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = ["cluster", "partition", "spread"]
      instance_storage_supported     = true
      gpus                           = [{ count = 4, manufacturer = "NVIDIA", memory_size = 22888, name = "A10G" }]
    }
  }

  mock_data "aws_ec2_instance_type_offerings" {
    defaults = { locations = ["us-east-1d", "us-east-1b"] }
  }

  mock_data "aws_subnets" {
    defaults = { ids = ["subnet-a", "subnet-b"] }
  }

  mock_data "aws_route_tables" {
    defaults = { ids = ["rtb-1"] }
  }

  mock_data "aws_route_table" {
    defaults = {
      routes = [
        { cidr_block = "10.42.0.0/16", gateway_id = "local", nat_gateway_id = "", carrier_gateway_id = "", core_network_arn = "", destination_prefix_list_id = "", egress_only_gateway_id = "", instance_id = "", ipv6_cidr_block = "", local_gateway_id = "", network_interface_id = "", transit_gateway_id = "", vpc_endpoint_id = "", vpc_peering_connection_id = "" },
        { cidr_block = "0.0.0.0/0", gateway_id = "", nat_gateway_id = "nat-1", carrier_gateway_id = "", core_network_arn = "", destination_prefix_list_id = "", egress_only_gateway_id = "", instance_id = "", ipv6_cidr_block = "", local_gateway_id = "", network_interface_id = "", transit_gateway_id = "", vpc_endpoint_id = "", vpc_peering_connection_id = "" },
      ]
    }
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

  mock_resource "aws_iam_instance_profile" {
    defaults = { arn = "arn:aws:iam::111122223333:instance-profile/mock" }
  }

  mock_resource "aws_launch_template" {
    defaults = { id = "lt-0123456789abcdef0", latest_version = 3 }
  }

  mock_resource "aws_batch_compute_environment" {
    defaults = {
      arn                      = "arn:aws:batch:us-east-1:111122223333:compute-environment/batchmark-multi-node-1"
      compute_environment_name = "batchmark-multi-node-1"
      ecs_cluster_arn          = "arn:aws:ecs:us-east-1:111122223333:cluster/AWSBatch-batchmark-multi-node-1"
    }
  }

  mock_resource "aws_batch_job_queue" {
    defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-queue/batchmark-multi-node" }
  }

  mock_resource "aws_batch_job_definition" {
    defaults = { arn = "arn:aws:batch:us-east-1:111122223333:job-definition/batchmark-multi-node:1" }
  }

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 1, \"name\": \"batchmark\", \"bucket\": \"results\", \"topic_arn\": \"arn:aws:sns:us-east-1:111122223333:batchmark-alerts\", \"log_group\": \"/aws/batch/batchmark\", \"events_log_group\": \"/aws/events/batch/batchmark\"}" }
  }

  override_data {
    target = data.aws_ssm_parameter.newest_ami
    values = { value = "ami-0123456789abcdef0" }
  }

  override_data {
    target = data.aws_subnet.this["subnet-a"]
    values = { id = "subnet-a", vpc_id = "vpc-1", availability_zone = "us-east-1a" }
  }

  override_data {
    target = data.aws_subnet.this["subnet-b"]
    values = { id = "subnet-b", vpc_id = "vpc-1", availability_zone = "us-east-1b" }
  }

  override_resource {
    target = aws_security_group.nodes
    values = { id = "sg-nodes" }
  }

  override_resource {
    target = aws_security_group.file_system
    values = { id = "sg-files" }
  }
}

override_resource {
  target          = terraform_data.ami
  values          = { output = "ami-0123456789abcdef0" }
  override_during = plan
}

variables {
  airflow_role_arns = ["arn:aws:iam::111122223333:role/teams/batchmark-airflow"]
}

run "where_nodes_start" {
  command = plan

  assert {
    condition     = one([for filter in data.aws_subnets.core[0].filter : one(filter.values) if filter.name == "tag:Name"]) == "batchmark-private-*" && output.subnet == { id = "subnet-b", zone = "us-east-1b" }
    error_message = "the core stack's private subnet of the first zone that offers the type"
  }

  assert {
    condition     = aws_placement_group.this[0].strategy == "cluster" && one(aws_batch_compute_environment.this.compute_resources).placement_group == "batchmark-multi-node"
    error_message = "close to each other"
  }

  assert {
    condition     = [one(aws_batch_compute_environment.this.compute_resources).type, aws_batch_compute_environment.this.type] == ["EC2", "MANAGED"] && one(aws_batch_compute_environment.this.compute_resources).subnets == toset(["subnet-b"])
    error_message = "managed, On-Demand, in one subnet"
  }

  assert {
    condition     = [one(aws_batch_compute_environment.this.compute_resources).min_vcpus, one(aws_batch_compute_environment.this.compute_resources).desired_vcpus, one(aws_batch_compute_environment.this.compute_resources).max_vcpus] == [0, 0, 960] && output.most_vcpus == 960
    error_message = "nothing while idle, and 20 nodes of 48 vCPUs at most"
  }

  assert {
    condition     = [one(one(aws_batch_compute_environment.this.compute_resources).ec2_configuration).image_type, one(one(aws_batch_compute_environment.this.compute_resources).ec2_configuration).image_id_override] == ["ECS_AL2023_NVIDIA", "ami-0123456789abcdef0"]
    error_message = "the GPU image of Amazon Linux 2023"
  }

  assert {
    condition     = length(aws_batch_job_queue.this.compute_environment_order) == 1 && length(aws_batch_job_queue.this.job_state_time_limit_action) == 4 && alltrue([for limit in aws_batch_job_queue.this.job_state_time_limit_action : limit.max_time_seconds == 1800])
    error_message = "one environment, and a job that can't be placed does not block the queue for ever"
  }

  assert {
    condition     = module.monitoring.event_log_group_name == "/aws/events/batch/batchmark" && module.monitoring.dashboard_url == null
    error_message = "its jobs' states are logged beside the others'"
  }

  assert {
    condition     = output.alarm_names == ["batchmark-multi-node-idle-g5-12xlarge", "batchmark-multi-node-launches-g5-12xlarge"]
    error_message = "nodes with no job, and those that are launched over and over, are told"
  }
}

run "hosts" {
  command = plan

  assert {
    condition     = aws_launch_template.this.metadata_options[0].http_tokens == "required" && aws_launch_template.this.metadata_options[0].http_put_response_hop_limit == 2
    error_message = "IMDSv2 only, as far as a container"
  }

  assert {
    condition     = aws_launch_template.this.block_device_mappings[0].ebs[0].volume_size == 500 && aws_launch_template.this.block_device_mappings[0].ebs[0].encrypted == "true"
    error_message = "500 GiB, encrypted"
  }

  assert {
    condition     = alltrue([for spec in aws_launch_template.this.tag_specifications : spec.tags["batchmark:installation"] == "batchmark" && spec.tags["Target"] == "g5.12xlarge-multi-node"])
    error_message = "the leak guard sees what bills"
  }

  assert {
    condition     = length(split("--==BATCHMARK==\n", base64decode(aws_launch_template.this.user_data))) == 3 && endswith(base64decode(aws_launch_template.this.user_data), "--==BATCHMARK==--\n")
    error_message = "two scripts, in MIME multipart"
  }

  assert {
    condition     = strcontains(split("--==BATCHMARK==\n", base64decode(aws_launch_template.this.user_data))[1], "$seen\" -ge 4") && strcontains(split("--==BATCHMARK==\n", base64decode(aws_launch_template.this.user_data))[1], "mkfs.xfs")
    error_message = "the first counts the GPUs, and makes /scratch of the disks"
  }

  assert {
    condition     = strcontains(split("--==BATCHMARK==\n", base64decode(aws_launch_template.this.user_data))[2], "\nFILE_SYSTEM_PARAMETER=\"/airflow/variables/batchmark_multi_node_file_system\"\n") && strcontains(split("--==BATCHMARK==\n", base64decode(aws_launch_template.this.user_data))[2], "mount -t lustre -o relatime,flock \"$dns_name@tcp:/$mount_name\" /fsx")
    error_message = "the second reads which file system there is, and mounts it"
  }
}

run "groups" {
  command = plan

  assert {
    condition     = [aws_vpc_security_group_ingress_rule.nodes.ip_protocol, aws_vpc_security_group_ingress_rule.nodes.security_group_id, aws_vpc_security_group_ingress_rule.nodes.referenced_security_group_id] == ["-1", "sg-nodes", "sg-nodes"] && aws_vpc_security_group_egress_rule.nodes.referenced_security_group_id == "sg-nodes"
    error_message = "nodes reach each other at all ports"
  }

  assert {
    condition = { for key, rule in aws_vpc_security_group_ingress_rule.lustre : key => join(" ", [rule.security_group_id, rule.referenced_security_group_id, rule.ip_protocol, rule.from_port, rule.to_port]) } == {
      "file_system/file_system/988"  = "sg-files sg-files tcp 988 988"
      "file_system/file_system/1018" = "sg-files sg-files tcp 1018 1023"
      "file_system/nodes/988"        = "sg-files sg-nodes tcp 988 988"
      "file_system/nodes/1018"       = "sg-files sg-nodes tcp 1018 1023"
      "nodes/file_system/988"        = "sg-nodes sg-files tcp 988 988"
      "nodes/file_system/1018"       = "sg-nodes sg-files tcp 1018 1023"
    }
    error_message = "Lustre's ports are open between servers and clients, and nothing else"
  }

  assert {
    condition     = { for key, rule in aws_vpc_security_group_egress_rule.lustre : key => [rule.from_port, rule.to_port] } == { for key, rule in aws_vpc_security_group_ingress_rule.lustre : key => [rule.from_port, rule.to_port] }
    error_message = "from both sides"
  }

  assert {
    condition     = [aws_vpc_security_group_egress_rule.https.from_port, aws_vpc_security_group_egress_rule.https.to_port] == [443, 443]
    error_message = "HTTPS is the only way to the rest of the world"
  }
}

run "job" {
  command = plan

  assert {
    condition     = aws_batch_job_definition.this.type == "multinode" && one(aws_batch_job_definition.this.retry_strategy).attempts == 1 && one(aws_batch_job_definition.this.timeout).attempt_duration_seconds == 3600
    error_message = "one attempt, an hour at most"
  }

  assert {
    condition     = [for range in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties : range.targetNodes] == ["0:"] && jsondecode(aws_batch_job_definition.this.node_properties).mainNode == 0 && jsondecode(aws_batch_job_definition.this.node_properties).numNodes == 2
    error_message = "a job may ask for any number of nodes, all alike"
  }

  assert {
    condition = { for need in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.resourceRequirements : need.type => need.value } == {
      VCPU   = "48"
      MEMORY = "172032"
      GPU    = "4"
    }
    error_message = "it takes a node as a whole, but for what its agent needs"
  }

  assert {
    condition     = jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.instanceType == "g5.12xlarge" && jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.linuxParameters.sharedMemorySize == 16384
    error_message = "the environment's type, and 4 GiB of shared memory for each GPU"
  }

  assert {
    condition = { for variable in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.environment : variable.name => variable.value } == {
      AWS_DEFAULT_REGION    = "us-east-1"
      HOME                  = "/tmp"
      BATCHMARK_ROOT_VOLUME = "gp3, 500 GiB, 500 MiB/s, 3000 IOPS"
      BATCHMARK_FILES       = "/fsx/images"
      JOB_DIR               = "/fsx/images"
      SCRATCH_DIR           = "/scratch"
      NCCL_SOCKET_IFNAME    = "^lo,ecs-eth"
      NCCL_DEBUG            = "WARN"
    }
    error_message = "it is told where its files lie, and which interfaces lead nowhere"
  }

  assert {
    condition     = { for mount in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.mountPoints : mount.sourceVolume => mount.containerPath } == { fsx = "/fsx", scratch = "/scratch" } && { for volume in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.volumes : volume.name => volume.host.sourcePath } == { fsx = "/fsx", scratch = "/scratch" }
    error_message = "it sees the host's folders at the same path"
  }

  assert {
    condition     = { for limit in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.ulimits : limit.name => [limit.softLimit, limit.hardLimit] } == { memlock = [-1, -1], stack = [67108864, 67108864] }
    error_message = "NCCL may pin as much memory as it likes"
  }

  assert {
    condition     = [jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.user, jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.logConfiguration.options["awslogs-group"], jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.image] == ["10001", "/aws/batch/batchmark", "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0"]
    error_message = "the core stack's image, its user and its log group"
  }

  assert {
    condition     = jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.logConfiguration.options.mode == "blocking"
    error_message = "no line is dropped"
  }

  assert {
    condition     = join(" ", jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.command) == "python -m batchmark_job run --suite Ref::suite --dtype Ref::dtype --device cuda --threads 48 --run-id Ref::run_id --target g5.12xlarge-multi-node --output Ref::output --metrics-namespace Batchmark/batchmark"
    error_message = "the command of every benchmark job"
  }

  assert {
    condition     = aws_batch_job_definition.this.parameters == tomap({ suite = "scaling", dtype = "suite", run_id = "manual", output = "s3://results/raw/manual/g5.12xlarge-multi-node/" })
    error_message = "a bare submit-job works"
  }

  assert {
    condition     = strcontains(output.submit_command, " --timeout attemptDurationSeconds=3600 ")
    error_message = "no job by hand runs for ever, whatever its definition says by then"
  }

  assert {
    condition     = endswith(output.submit_command, " --node-overrides '{\"nodePropertyOverrides\":[{\"containerOverrides\":{\"environment\":[{\"name\":\"BATCHMARK_NODES_TOKEN\",\"value\":\"'$(openssl rand -hex 32)'\"}]},\"targetNodes\":\"0:\"}],\"numNodes\":2}'")
    error_message = "each job by hand has a secret of its own"
  }
}

run "what_airflow_is_told" {
  command = plan

  assert {
    condition = jsondecode(aws_ssm_parameter.airflow.value) == {
      schema_version      = 1
      name                = "batchmark"
      region              = "us-east-1"
      target              = "g5.12xlarge-multi-node"
      device              = "cuda"
      instance_type       = "g5.12xlarge"
      vcpus               = 48
      gpus                = 4
      most_nodes          = 20
      job_queue           = "arn:aws:batch:us-east-1:111122223333:job-queue/batchmark-multi-node"
      job_definition      = "arn:aws:batch:us-east-1:111122223333:job-definition/batchmark-multi-node:1"
      compute_environment = "batchmark-multi-node-1"
      timeout_seconds     = 3600
      allow_cpu_fallback  = false
      mount_point         = "/fsx"
      scratch             = "/scratch"
      file_system = {
        deployment_type = "SCRATCH_2"
        storage_gib     = 1200
        throughput      = null
        version         = "2.15"
        subnet          = "subnet-b"
        security_group  = "sg-files"
        kms_key_arn     = null
        repository      = "s3://results/images/"
        folder          = "/images"
        id_parameter    = "/airflow/variables/batchmark_multi_node_file_system"
      }
    }
    error_message = "where jobs run, and which file system to stand up"
  }

  assert {
    condition     = aws_ssm_parameter.airflow.name == "/airflow/variables/batchmark_multi_node" && [aws_ssm_parameter.file_system.name, aws_ssm_parameter.file_system.value] == ["/airflow/variables/batchmark_multi_node_file_system", "none"]
    error_message = "at first there is no file system"
  }
}

run "rights" {
  command = plan

  assert {
    condition = { for statement in data.aws_iam_policy_document.job.statement : statement.sid => join(" ", concat(sort(statement.actions), sort(statement.resources))) } == {
      RawResults = "s3:AbortMultipartUpload s3:PutObject arn:aws:s3:::results/raw/*/g5.12xlarge-multi-node/*"
      WriteOnce  = "s3:PutObject arn:aws:s3:::results/raw/*"
      Telemetry  = "cloudwatch:PutMetricData *"
    }
    error_message = "a job writes raw results of its own target and telemetry, and reads nothing"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.job.statement : join(", ", [statement.effect], sort([for condition in statement.condition : "${condition.test} ${condition.variable} ${one(condition.values)}"])) if statement.sid == "WriteOnce"] == ["Deny, Bool s3:ObjectCreationOperation true, Null s3:if-none-match true"]
    error_message = "it replaces no document"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.pull_and_log.statement : one(statement.resources) if statement.sid == "WriteLogs"] == ["arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/batchmark:log-stream:g5.12xlarge-multi-node/*"]
    error_message = "of the core stack's log group, it writes to its own streams"
  }

  assert {
    condition     = alltrue([for statement in data.aws_iam_policy_document.instance.statement : one(statement.resources) == "arn:aws:ssm:us-east-1:111122223333:parameter/airflow/variables/batchmark_multi_node_file_system" if contains(statement.actions, "ssm:GetParameter")]) && alltrue([for statement in data.aws_iam_policy_document.instance.statement : statement.resources == toset(["arn:aws:ecs:us-east-1:111122223333:cluster/AWSBatch-batchmark-multi-node-*", "arn:aws:ecs:us-east-1:111122223333:cluster/batchmark-multi-node-*_Batch_*"]) if statement.sid == "JoinCluster"])
    error_message = "a host reads that one parameter, and joins clusters of its own environment"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.airflow.statement : statement.sid => join(" ", concat(sort(statement.actions), sort(statement.resources))) } == {
      SubmitJobs          = "batch:SubmitJob arn:aws:batch:us-east-1:111122223333:job-definition/batchmark-multi-node:* arn:aws:batch:us-east-1:111122223333:job-queue/batchmark-multi-node"
      TellNodesFileSystem = "ssm:GetParameter ssm:PutParameter arn:aws:ssm:us-east-1:111122223333:parameter/airflow/variables/batchmark_multi_node_file_system"
      CreateFileSystem    = "fsx:CreateFileSystem fsx:TagResource arn:aws:fsx:us-east-1:111122223333:file-system/*"
      CreateLink          = "fsx:CreateDataRepositoryAssociation fsx:TagResource arn:aws:fsx:us-east-1:111122223333:association/*"
      LinkOwn             = "fsx:CreateDataRepositoryAssociation arn:aws:fsx:us-east-1:111122223333:file-system/*"
      EndOwn              = "fsx:DeleteFileSystem arn:aws:fsx:us-east-1:111122223333:file-system/*"
      FollowFileSystem    = "batch:DescribeComputeEnvironments fsx:DescribeDataRepositoryAssociations fsx:DescribeDataRepositoryTasks fsx:DescribeFileSystems *"
      LookAtRoles         = "iam:GetInstanceProfile iam:GetRole arn:aws:iam::111122223333:instance-profile/mock arn:aws:iam::111122223333:role/mock"
      FsxRole             = "iam:CreateServiceLinkedRole arn:aws:iam::111122223333:role/aws-service-role/fsx.amazonaws.com/*"
      FsxRoleForBucket    = "iam:AttachRolePolicy iam:CreateServiceLinkedRole iam:PutRolePolicy arn:aws:iam::111122223333:role/aws-service-role/s3.data-source.lustre.fsx.amazonaws.com/*"
    }
    error_message = "Airflow stands up file systems and runs jobs here, and no more"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.airflow.statement : statement.sid => one([for condition in statement.condition : "${condition.variable} ${one(condition.values)}"]) if length(statement.condition) > 0 } == {
      CreateFileSystem = "aws:RequestTag/batchmark:installation batchmark"
      CreateLink       = "aws:RequestTag/batchmark:installation batchmark"
      LinkOwn          = "aws:ResourceTag/batchmark:installation batchmark"
      EndOwn           = "aws:ResourceTag/batchmark:installation batchmark"
      FsxRole          = "iam:AWSServiceName fsx.amazonaws.com"
    }
    error_message = "what it makes carries the installation's tag, and what it ends"
  }

  assert {
    condition     = aws_iam_role_policy_attachment.airflow["arn:aws:iam::111122223333:role/teams/batchmark-airflow"].role == "batchmark-airflow"
    error_message = "the given role gets the policy"
  }
}

run "own_network_image_key_and_sizes" {
  command = plan

  variables {
    airflow_role_arns      = []
    subnet_id              = "subnet-b"
    security_group_ids     = ["sg-2", "sg-1"]
    placement_group        = false
    instance_type          = "p4d.24xlarge"
    most_nodes             = 1000
    ami_id                 = "ami-0fedcba9876543210"
    kms_key_arn            = "arn:aws:kms:us-east-1:111122223333:key/0123"
    image_tag              = "sha256:0123456789012345678901234567890123456789012345678901234567890123"
    enable_session_manager = true
    shared_memory_mib      = 65536
    tags                   = { team = "research", "batchmark:installation" = "another" }
    file_system            = { deployment_type = "PERSISTENT_2", storage_gib = 4800, throughput = 250, prefix = "sets/small/", folder = "/sets/small" }
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = {
      default_vcpus                  = 96
      memory_size                    = 1179648
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = []
      instance_storage_supported     = true
      gpus                           = [{ count = 8, manufacturer = "NVIDIA", memory_size = 40960, name = "A100" }]
    }
  }

  assert {
    condition     = length(data.aws_subnets.core) == 0 && one(aws_batch_compute_environment.this.compute_resources).subnets == toset(["subnet-b"]) && one(aws_batch_compute_environment.this.compute_resources).security_group_ids == toset(["sg-nodes", "sg-1", "sg-2"])
    error_message = "a given subnet is taken, and no other looked for"
  }

  assert {
    condition     = length(aws_placement_group.this) == 0 && one(aws_batch_compute_environment.this.compute_resources).placement_group == null && output.most_vcpus == 96000
    error_message = "no placement group, and up to 1,000 nodes"
  }

  assert {
    condition     = output.ami_id == "ami-0fedcba9876543210" && jsondecode(aws_ssm_parameter.airflow.value).given_ami && one(one(aws_batch_compute_environment.this.compute_resources).ec2_configuration).image_id_override == "ami-0fedcba9876543210"
    error_message = "a given image is taken"
  }

  assert {
    condition     = jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.image == "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job@sha256:0123456789012345678901234567890123456789012345678901234567890123" && jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.linuxParameters.sharedMemorySize == 65536
    error_message = "a digest names an image, too"
  }

  assert {
    condition     = one([for variable in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.environment : variable.value if variable.name == "BATCHMARK_FILES"]) == "/fsx/sets/small" && jsondecode(aws_ssm_parameter.airflow.value).file_system.repository == "s3://results/sets/small/"
    error_message = "prefix and folder are inputs"
  }

  assert {
    condition     = [jsondecode(aws_ssm_parameter.airflow.value).file_system.kms_key_arn, aws_launch_template.this.block_device_mappings[0].ebs[0].kms_key_id] == ["arn:aws:kms:us-east-1:111122223333:key/0123", "arn:aws:kms:us-east-1:111122223333:key/0123"]
    error_message = "the key encrypts volumes and a persistent file system"
  }

  assert {
    condition     = one([for condition in [for statement in data.aws_iam_policy_document.airflow.statement : statement if statement.sid == "EncryptFileSystem"][0].condition : one(condition.values)]) == "fsx.us-east-1.amazonaws.com" && one([for condition in [for statement in data.aws_iam_policy_document.job.statement : statement if statement.sid == "EncryptResults"][0].condition : one(condition.values)]) == "s3.us-east-1.amazonaws.com"
    error_message = "Airflow uses the key through FSx alone, and jobs through S3"
  }

  assert {
    condition     = length(aws_iam_role_policy_attachment.instance) == 1 && length(aws_iam_role_policy_attachment.airflow) == 0
    error_message = "people may open a shell on nodes"
  }

  assert {
    condition     = alltrue([for spec in aws_launch_template.this.tag_specifications : spec.tags["team"] == "research" && spec.tags["batchmark:installation"] == "batchmark"])
    error_message = "the user's tags are taken, and never take the place of ours"
  }
}

run "scratch_has_fsx_own_key" {
  command = plan

  variables {
    kms_key_arn = "arn:aws:kms:us-east-1:111122223333:key/0123"
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).file_system.kms_key_arn == null && !contains([for statement in data.aws_iam_policy_document.airflow.statement : statement.sid], "EncryptFileSystem")
    error_message = "FSx takes no key for scratch"
  }
}

run "on_the_cpu" {
  command = plan

  variables {
    instance_type  = "c5.2xlarge"
    most_nodes     = 1
    job_vcpus      = 1
    job_memory_mib = 1536
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = {
      default_vcpus                  = 8
      memory_size                    = 16384
      supported_architectures        = ["x86_64"]
      supported_placement_strategies = ["cluster"]
      instance_storage_supported     = false
      gpus                           = []
    }
  }

  assert {
    condition     = one(one(aws_batch_compute_environment.this.compute_resources).ec2_configuration).image_type == "ECS_AL2023" && data.aws_ssm_parameter.newest_ami.name == "/aws/service/ecs/optimized-ami/amazon-linux-2023/recommended/image_id"
    error_message = "the image without a GPU driver"
  }

  assert {
    condition = { for need in jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.resourceRequirements : need.type => need.value } == {
      VCPU   = "1"
      MEMORY = "1536"
    }
    error_message = "no GPU, and the share of a laptop"
  }

  assert {
    condition     = jsondecode(aws_batch_job_definition.this.node_properties).nodeRangeProperties[0].container.linuxParameters.sharedMemorySize == 768 && jsondecode(aws_batch_job_definition.this.node_properties).numNodes == 1
    error_message = "half of its memory may be shared, and one node is all there is"
  }

  assert {
    condition     = [jsondecode(aws_ssm_parameter.airflow.value).device, tostring(jsondecode(aws_ssm_parameter.airflow.value).gpus), tostring(jsondecode(aws_ssm_parameter.airflow.value).vcpus)] == ["cpu", "0", "8"]
    error_message = "quotas count an instance's vCPUs, not a job's"
  }

  assert {
    condition     = !strcontains(base64decode(aws_launch_template.this.user_data), "nvidia-smi") && !strcontains(base64decode(aws_launch_template.this.user_data), "mkfs.xfs") && strcontains(base64decode(aws_launch_template.this.user_data), "chmod 1777 /scratch")
    error_message = "no GPUs to count, and /scratch on the root volume"
  }
}

################################################################################
# The way out
################################################################################

run "refuses_a_public_subnet" {
  command = plan

  override_data {
    target = data.aws_route_table.this
    values = { routes = [{ cidr_block = "0.0.0.0/0", gateway_id = "igw-1", nat_gateway_id = "", carrier_gateway_id = "", core_network_arn = "", destination_prefix_list_id = "", egress_only_gateway_id = "", instance_id = "", ipv6_cidr_block = "", local_gateway_id = "", network_interface_id = "", transit_gateway_id = "", vpc_endpoint_id = "", vpc_peering_connection_id = "" }] }
  }

  expect_failures = [aws_batch_compute_environment.this]
}

run "refuses_a_subnet_without_a_way_out" {
  command = plan

  override_data {
    target = data.aws_route_table.this
    values = { routes = [] }
  }

  expect_failures = [aws_batch_compute_environment.this]
}

run "endpoints_are_a_way_out" {
  command = plan

  variables {
    endpoints_only     = true
    security_group_ids = ["sg-1"]
  }

  override_data {
    target = data.aws_route_table.this
    values = { routes = [] }
  }

  override_data {
    target = data.aws_vpc_endpoint.needed
    values = { private_dns_enabled = true, route_table_ids = ["rtb-1"] }
  }

  assert {
    condition     = toset(keys(data.aws_vpc_endpoint.needed)) == toset(["ecr.api", "ecr.dkr", "ecs", "ecs-agent", "ecs-telemetry", "fsx", "logs", "monitoring", "s3", "ssm"]) && data.aws_vpc_endpoint.needed["fsx"].service_name == "com.amazonaws.us-east-1.fsx"
    error_message = "each endpoint that nodes need is looked up"
  }
}

run "refuses_endpoints_that_serve_nobody" {
  command = plan

  variables {
    endpoints_only = true
  }

  override_data {
    target = data.aws_vpc_endpoint.needed
    values = { private_dns_enabled = true, route_table_ids = ["rtb-2"] }
  }

  override_data {
    target = data.aws_vpc_endpoint.needed["ssm"]
    values = { private_dns_enabled = false }
  }

  expect_failures = [data.aws_vpc_endpoint.needed["s3"], data.aws_vpc_endpoint.needed["ssm"]]
}

run "the_vpcs_own_route_table" {
  command = plan

  override_data {
    target = data.aws_route_tables.own
    values = { ids = [] }
  }

  override_data {
    target = data.aws_route_tables.main
    values = { ids = ["rtb-main"] }
  }

  assert {
    condition     = data.aws_route_table.this.route_table_id == "rtb-main"
    error_message = "a subnet without a table of its own has the VPC's"
  }
}

################################################################################
# Zones
################################################################################

run "a_zone_by_name" {
  command = plan

  variables {
    zone = "us-east-1b"
  }

  assert {
    condition     = one([for filter in data.aws_subnets.core[0].filter : one(filter.values) if filter.name == "availability-zone"]) == "us-east-1b"
    error_message = "the core stack's private subnet in that zone"
  }
}

run "refuses_a_zone_without_the_type" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type_offerings.this
    values = { locations = ["us-east-1f"] }
  }

  expect_failures = [aws_batch_compute_environment.this]
}

run "refuses_a_zone_without_a_subnet" {
  command = plan

  variables {
    zone = "us-east-1e"
  }

  override_data {
    target = data.aws_subnets.core
    values = { ids = [] }
  }

  expect_failures = [data.aws_subnets.core]
}

run "refuses_a_zone_beside_a_subnet" {
  command = plan

  variables {
    zone      = "us-east-1b"
    subnet_id = "subnet-b"
  }

  expect_failures = [var.subnet_id]
}

run "refuses_what_is_no_subnet" {
  command = plan

  variables {
    subnet_id = "vpc-1"
  }

  expect_failures = [var.subnet_id]
}

run "refuses_another_regions_zone" {
  command = plan

  variables {
    zone = "us-west-2a"
  }

  expect_failures = [var.zone]
}

################################################################################
# Nodes
################################################################################

run "refuses_spot" {
  command = plan

  variables {
    purchasing = "spot_first"
  }

  expect_failures = [var.purchasing]
}

run "refuses_no_nodes" {
  command = plan

  variables {
    most_nodes = 0
  }

  expect_failures = [var.most_nodes]
}

run "refuses_more_nodes_than_batch_gives" {
  command = plan

  variables {
    most_nodes = 1001
  }

  expect_failures = [var.most_nodes]
}

run "refuses_old_gpus" {
  command = plan

  variables {
    instance_type = "p3.16xlarge"
  }

  expect_failures = [var.instance_type]
}

run "refuses_fractions_of_a_gpu" {
  command = plan

  variables {
    instance_type = "g6f.xlarge"
  }

  expect_failures = [var.instance_type]
}

run "refuses_a_driver_that_the_ami_lacks" {
  command = plan

  variables {
    instance_type = "g7.12xlarge"
  }

  expect_failures = [aws_launch_template.this]
}

run "takes_an_ami_that_has_the_driver" {
  command = plan

  variables {
    instance_type = "g7.12xlarge"
    ami_id        = "ami-0123456789abcdef0"
  }
}

run "refuses_another_makers_gpu" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [{ count = 1, manufacturer = "AMD", memory_size = 8192, name = "Radeon Pro V520" }], supported_architectures = ["x86_64"], supported_placement_strategies = ["cluster"], instance_storage_supported = true, default_vcpus = 16, memory_size = 65536 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_an_arm_machine" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [], supported_architectures = ["arm64"], supported_placement_strategies = ["cluster"], instance_storage_supported = true, default_vcpus = 16, memory_size = 65536 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_a_type_that_no_placement_group_takes" {
  command = plan

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [], supported_architectures = ["x86_64"], supported_placement_strategies = ["partition", "spread"], instance_storage_supported = false, default_vcpus = 2, memory_size = 8192 }
  }

  expect_failures = [data.aws_ec2_instance_type.this]
}

run "refuses_more_than_a_node_has" {
  command = plan

  variables {
    job_vcpus         = 64
    job_memory_mib    = 190000
    shared_memory_mib = 190000
  }

  expect_failures = [aws_batch_job_definition.this]
}

run "refuses_a_fallback_without_a_gpu" {
  command = plan

  variables {
    allow_cpu_fallback = true
  }

  override_data {
    target = data.aws_ec2_instance_type.this
    values = { gpus = [], supported_architectures = ["x86_64"], supported_placement_strategies = ["cluster"], instance_storage_supported = false, default_vcpus = 8, memory_size = 16384 }
  }

  expect_failures = [aws_batch_job_definition.this]
}

################################################################################
# File system
################################################################################

run "refuses_a_misspelt_field_of_the_file_system" {
  command = plan

  variables {
    file_system = { storage = 2400 }
  }

  expect_failures = [var.file_system]
}

run "takes_null_for_the_default" {
  command = plan

  variables {
    file_system = null
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).file_system.storage_gib == 1200
    error_message = "null is as good as nothing"
  }
}

run "takes_fields_of_null_and_numbers_as_text" {
  command = plan

  variables {
    file_system = { storage_gib = "1200", prefix = null, throughput = null }
  }

  assert {
    condition     = [jsondecode(aws_ssm_parameter.airflow.value).file_system.storage_gib, jsondecode(aws_ssm_parameter.airflow.value).file_system.repository] == [1200, "s3://results/images/"]
    error_message = "Airflow reads a number, and the default of what is null"
  }
}

run "refuses_scratch_1" {
  command = plan

  variables {
    file_system = { deployment_type = "SCRATCH_1" }
  }

  expect_failures = [var.file_system]
}

run "refuses_3600_gib" {
  command = plan

  variables {
    file_system = { storage_gib = 3600 }
  }

  expect_failures = [var.file_system]
}

run "refuses_no_storage" {
  command = plan

  variables {
    file_system = { storage_gib = 0 }
  }

  expect_failures = [var.file_system]
}

run "refuses_throughput_for_scratch" {
  command = plan

  variables {
    file_system = { throughput = 200 }
  }

  expect_failures = [var.file_system]
}

run "refuses_persistent_without_throughput" {
  command = plan

  variables {
    file_system = { deployment_type = "PERSISTENT_2" }
  }

  expect_failures = [var.file_system]
}

run "refuses_the_other_types_throughput" {
  command = plan

  variables {
    file_system = { deployment_type = "PERSISTENT_1", throughput = 125 }
  }

  expect_failures = [var.file_system]
}

run "takes_persistent_1" {
  command = plan

  variables {
    file_system = { deployment_type = "PERSISTENT_1", throughput = 200, storage_gib = 2400, version = "2.12" }
  }

  assert {
    condition     = [jsondecode(aws_ssm_parameter.airflow.value).file_system.throughput, jsondecode(aws_ssm_parameter.airflow.value).file_system.storage_gib] == [200, 2400]
    error_message = "200 MB/s for each of 2.4 TiB"
  }
}

run "refuses_lustre_2_10" {
  command = plan

  variables {
    file_system = { version = "2.10" }
  }

  expect_failures = [var.file_system]
}

run "refuses_a_prefix_that_is_none" {
  command = plan

  variables {
    file_system = { prefix = "/images" }
  }

  expect_failures = [var.file_system]
}

run "refuses_a_folder_that_is_none" {
  command = plan

  variables {
    file_system = { folder = "images/" }
  }

  expect_failures = [var.file_system]
}

################################################################################
# The rest
################################################################################

run "refuses_what_is_malformed" {
  command = plan

  variables {
    name                     = "Batchmark"
    airflow_role_arns        = ["batchmark-airflow"]
    airflow_variables_prefix = "airflow/"
    ami_id                   = "al2023"
    iam_path                 = "research"
    image_tag                = "a b"
    job_memory_mib           = 256
    job_vcpus                = 0.5
    kms_key_arn              = "alias/results"
    permissions_boundary_arn = "boundary"
    region                   = "us-east-1a"
    runnable_timeout_seconds = 60
    security_group_ids       = ["default"]
    shared_memory_mib        = 1
    tags                     = { "aws:owner" = "me" }
    timeout_seconds          = 30
    volume_size_gib          = 8
  }

  expect_failures = [
    var.name,
    var.airflow_role_arns,
    var.airflow_variables_prefix,
    var.ami_id,
    var.iam_path,
    var.image_tag,
    var.job_memory_mib,
    var.job_vcpus,
    var.kms_key_arn,
    var.permissions_boundary_arn,
    var.region,
    var.runnable_timeout_seconds,
    var.security_group_ids,
    var.shared_memory_mib,
    var.tags,
    var.timeout_seconds,
    var.volume_size_gib,
  ]
}

run "refuses_another_installations_parameter" {
  command = plan

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 2, \"name\": \"another\", \"bucket\": \"results\", \"log_group\": \"a\", \"events_log_group\": \"b\"}" }
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
    values = { insecure_value = "{\"schema_version\": 1, \"name\": \"longest-installation\", \"bucket\": \"results\", \"topic_arn\": \"arn:aws:sns:us-east-1:111122223333:alerts\", \"log_group\": \"/aws/batch/longest-installation\", \"events_log_group\": \"/aws/events/batch/longest-installation\"}" }
  }

  assert {
    condition     = [aws_iam_role.instance.name_prefix, aws_iam_role.execution.name_prefix] == ["longest-installation-multi-node-instan", "longest-installation-multi-node-execut"]
    error_message = "the longest prefixes are cut"
  }
}
