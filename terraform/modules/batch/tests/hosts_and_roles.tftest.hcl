mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

variables {
  name               = "test"
  subnet_ids         = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  security_group_ids = ["sg-0123456789abcdef0"]
  bucket_name        = "results"
  bucket_arn         = "arn:aws:s3:::results"
  image              = "111122223333.dkr.ecr.us-east-1.amazonaws.com/job:1"
  ecr_repository_arn = "arn:aws:ecr:us-east-1:111122223333:repository/job"
  gpu_instance_types = ["g5.xlarge"]
  cpu_instance_types = ["c5.2xlarge"]
}

run "hosts" {
  command = plan

  assert {
    condition     = aws_launch_template.this["g5.xlarge"].metadata_options[0].http_tokens == "required" && aws_launch_template.this["g5.xlarge"].metadata_options[0].http_put_response_hop_limit == 2
    error_message = "the metadata service takes tokens only, and containers reach it"
  }

  assert {
    condition = [for device in aws_launch_template.this["g5.xlarge"].block_device_mappings : "${device.device_name} ${device.ebs[0].volume_type} ${device.ebs[0].volume_size} ${device.ebs[0].encrypted}"] == [
      "/dev/xvda gp3 64 true",
    ]
    error_message = "the root volume is encrypted gp3"
  }

  assert {
    condition     = { for tags in aws_launch_template.this["g5.xlarge"].tag_specifications : tags.resource_type => tags.tags["Target"] } == { instance = "g5.xlarge", volume = "g5.xlarge" }
    error_message = "instances and volumes can be told apart on the bill"
  }

  assert {
    condition     = startswith(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "MIME-Version: 1.0\nContent-Type: multipart/mixed; boundary=\"==BATCHMARK==\"\n\n--==BATCHMARK==\n") && endswith(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\n--==BATCHMARK==--\n")
    error_message = "Batch takes MIME multipart only"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\n\n#!/bin/bash\n")
    error_message = "cloud-init runs a part that starts with its interpreter"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "nvidia-smi sees $seen of 1 GPU(s)")
    error_message = "a host without its GPU says so"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "echo '{\"default-runtime\": \"nvidia\"}' > /etc/docker/daemon.json") && !strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\"runtimes\"")
    error_message = "the runtime is made the default and not registered twice"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\nsystemctl restart docker --no-block\n") && !can(regex("systemctl[^\n]*\\becs\\b", base64decode(aws_launch_template.this["g5.xlarge"].user_data)))
    error_message = "Docker restarts without being waited for, and the ECS agent is left alone"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "cat >> /etc/ecs/ecs.config <<'CONFIG'\nECS_ENABLE_GPU_SUPPORT=true\nECS_ENABLE_SPOT_INSTANCE_DRAINING=true\nECS_CONTAINER_STOP_TIMEOUT=90s\nCONFIG\n")
    error_message = "the agent's settings are added to those of Batch"
  }

  assert {
    condition     = !can(regex("nvidia|docker|GPU", base64decode(aws_launch_template.this["c5.2xlarge"].user_data))) && strcontains(base64decode(aws_launch_template.this["c5.2xlarge"].user_data), "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true")
    error_message = "a CPU host gets the agent's settings and nothing else"
  }
}

run "roles" {
  command = plan

  assert {
    condition     = length(data.aws_iam_policy_document.job.statement) == 1 && data.aws_iam_policy_document.job.statement[0].actions == toset(["s3:AbortMultipartUpload", "s3:PutObject"])
    error_message = "a job reads and writes objects, no more"
  }

  assert {
    condition     = data.aws_iam_policy_document.job.statement[0].resources == toset(["arn:aws:s3:::results/raw/*"])
    error_message = "a job touches raw results only"
  }

  assert {
    condition = { for condition in data.aws_iam_policy_document.task_trust.statement[0].condition : condition.variable => one(condition.values) } == {
      "aws:SourceAccount" = "111122223333"
      "aws:SourceArn"     = "arn:aws:ecs:us-east-1:111122223333:*"
    }
    error_message = "the role is taken on by tasks of this account only"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.pull_and_log.statement : statement.sid => statement.resources } == {
      RegistryLogin = toset(["*"])
      PullImage     = toset(["arn:aws:ecr:us-east-1:111122223333:repository/job"])
      WriteLogs     = toset(["arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/test:log-stream:*"])
    }
    error_message = "it pulls from one repository and writes to one log group"
  }

  assert {
    condition     = alltrue([for statement in data.aws_iam_policy_document.instance.statement : statement.sid == "FindEcs" ? statement.actions == toset(["ecs:DiscoverPollEndpoint"]) : !contains(statement.resources, "*")])
    error_message = "only the one call that takes no resource is allowed on all"
  }

  assert {
    condition     = !anytrue(flatten([for statement in data.aws_iam_policy_document.instance.statement : [for action in statement.actions : strcontains(action, "*")]]))
    error_message = "no action is a wildcard"
  }
}
