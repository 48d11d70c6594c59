mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

run "hosts" {
  command = plan

  variables {
    kms_key_arn     = "arn:aws:kms:us-east-1:111122223333:key/mock"
    extra_user_data = "#!/bin/sh\n# not: systemctl start ecs\nsystemctl restart docker --no-block\n"
  }

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
    condition     = [for device in aws_launch_template.this["g5.xlarge"].block_device_mappings : [device.ebs[0].throughput, device.ebs[0].iops]] == [[500, 3000]]
    error_message = "the root volume is fast enough for an image of 3 GB"
  }

  assert {
    condition     = aws_launch_template.this["g5.xlarge"].block_device_mappings[0].ebs[0].kms_key_id == var.kms_key_arn && aws_cloudwatch_log_group.this.kms_key_id == var.kms_key_arn
    error_message = "volumes and logs are encrypted with the given key"
  }

  assert {
    condition = [for statement in data.aws_iam_policy_document.job["g5.xlarge"].statement : [statement.actions, statement.resources, [for condition in statement.condition : "${condition.test} ${condition.variable} ${one(condition.values)}"]] if statement.sid == "EncryptResults"] == [
      [toset(["kms:Decrypt", "kms:GenerateDataKey"]), toset(["arn:aws:kms:us-east-1:111122223333:key/mock"]), ["StringEquals kms:ViaService s3.us-east-1.amazonaws.com"]],
    ]
    error_message = "a job uses the key for objects only"
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
    condition     = join(" ", flatten(regexall("\n--==BATCHMARK==\nContent-Type: text/x-shellscript; charset=\"utf-8\"\n\n(#!/bin/[a-z]+)\n", base64decode(aws_launch_template.this["g5.xlarge"].user_data)))) == "#!/bin/sh #!/bin/bash"
    error_message = "cloud-init runs each part that starts with its interpreter, the user's first"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "nvidia-smi sees $seen of 1 GPU(s)") && strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\n  systemctl mask ecs || true\n")
    error_message = "a host without its GPU says so and takes no jobs"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "settings[\"default-runtime\"] = \"nvidia\"") && !strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\"runtimes\"")
    error_message = "the runtime is made the default and not registered twice"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\nsystemctl restart docker --no-block\n") && !can(regex("\n *systemctl[^\n]*start ecs", base64decode(aws_launch_template.this["g5.xlarge"].user_data)))
    error_message = "Docker restarts without being waited for, and the ECS agent is left alone"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "cat >> /etc/ecs/ecs.config <<'CONFIG'\nECS_ENABLE_GPU_SUPPORT=true\nECS_ENABLE_SPOT_INSTANCE_DRAINING=true\nECS_CONTAINER_STOP_TIMEOUT=90s\nCONFIG\n")
    error_message = "the agent's settings are added to those of Batch"
  }

  assert {
    condition     = length(aws_launch_template.this["g5.xlarge"].capacity_reservation_specification) == 0
    error_message = "by default nothing is said about reservations"
  }

  assert {
    condition     = !can(regex("nvidia|GPU_SUPPORT", base64decode(aws_launch_template.this["c5.2xlarge"].user_data))) && strcontains(base64decode(aws_launch_template.this["c5.2xlarge"].user_data), "ECS_ENABLE_SPOT_INSTANCE_DRAINING=true")
    error_message = "a CPU host gets nothing of a GPU's"
  }
}

run "capacity_that_is_reserved" {
  command = plan

  variables {
    target_overrides = {
      "c5.2xlarge" = { purchasing = "on_demand", capacity_reservation = "arn:aws:resource-groups:us-east-1:111122223333:group/reserved" }
      "g5.xlarge"  = { purchasing = "on_demand", capacity_reservation = "cr-0123456789abcdef0" }
    }
  }

  assert {
    condition = jsonencode([for type in ["c5.2xlarge", "g5.xlarge"] : [
      aws_launch_template.this[type].capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_id,
      aws_launch_template.this[type].capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_resource_group_arn,
    ]]) == jsonencode([[null, "arn:aws:resource-groups:us-east-1:111122223333:group/reserved"], ["cr-0123456789abcdef0", null]])
    error_message = "hosts start in the reservation, or in one of the group"
  }

  assert {
    condition     = alltrue([for type in ["c5.2xlarge", "g5.xlarge"] : length(aws_launch_template.this[type].instance_market_options) == 0])
    error_message = "and are On-Demand instances in it"
  }
}

run "capacity_block" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { purchasing = "on_demand", capacity_block = "cr-0123456789abcdef0" } }
  }

  assert {
    condition     = aws_launch_template.this["g5.xlarge"].capacity_reservation_specification[0].capacity_reservation_target[0].capacity_reservation_id == "cr-0123456789abcdef0" && aws_launch_template.this["g5.xlarge"].instance_market_options[0].market_type == "capacity-block"
    error_message = "hosts start in the block, as what it is"
  }

  assert {
    condition     = output.targets["g5.xlarge"].capacity_block == "cr-0123456789abcdef0" && !can(output.targets["g5.xlarge"].capacity_reservation) && !can(output.targets["c5.2xlarge"].capacity_block)
    error_message = "Airflow is told of it, and of nothing where there is none"
  }
}

run "roles" {
  command = plan

  variables {
    metrics_namespace = "Team/Benchmarks"
  }

  assert {
    condition = { for name, document in data.aws_iam_policy_document.job : name => { for statement in document.statement : statement.sid => [coalesce(statement.effect, "Allow"), statement.actions, statement.resources] } } == {
      for name in ["c5.2xlarge", "g5.xlarge"] : name => {
        RawResults = ["Allow", toset(["s3:AbortMultipartUpload", "s3:PutObject"]), toset(["arn:aws:s3:::results/raw/*/${name}/*"])]
        WriteOnce  = ["Deny", toset(["s3:PutObject"]), toset(["arn:aws:s3:::results/raw/*"])]
        NoOwnJobs  = ["Deny", toset(["s3:PutObject"]), toset(["arn:aws:s3:::results/raw/*/${name}/job-*"])]
        Telemetry  = ["Allow", toset(["cloudwatch:PutMetricData"]), toset(["*"])]
      }
    }
    error_message = "a job writes raw results of its own target and metrics, no more"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.job["c5.2xlarge"].statement : statement.sid => sort([for condition in statement.condition : "${condition.test} ${condition.variable} ${one(condition.values)}"]) if length(statement.condition) > 0 } == {
      WriteOnce = tolist(["Bool s3:ObjectCreationOperation true", "Null s3:if-none-match true"])
      Telemetry = tolist(["StringEquals cloudwatch:namespace Team/Benchmarks"])
    }
    error_message = "it replaces no document, and publishes in one namespace"
  }

  assert {
    condition     = strcontains(join(" ", jsondecode(aws_batch_job_definition.this["c5.2xlarge"].container_properties).command), "--metrics-namespace Team/Benchmarks")
    error_message = "it is told which namespace"
  }

  assert {
    condition = { for condition in data.aws_iam_policy_document.task_trust.statement[0].condition : condition.variable => one(condition.values) } == {
      "aws:SourceAccount" = "111122223333"
      "aws:SourceArn"     = "arn:aws:ecs:us-east-1:111122223333:*"
    }
    error_message = "the role is taken on by tasks of this account only"
  }

  assert {
    condition     = [for trust in [data.aws_iam_policy_document.task_trust, data.aws_iam_policy_document.ec2_trust] : [for principal in trust.statement[0].principals : principal.identifiers]] == [[toset(["ecs-tasks.amazonaws.com"])], [toset(["ec2.amazonaws.com"])]]
    error_message = "tasks take on the job's roles, instances theirs"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.pull_and_log.statement : statement.sid => [statement.actions, statement.resources] } == {
      RegistryLogin = [toset(["ecr:GetAuthorizationToken"]), toset(["*"])]
      PullImage     = [toset(["ecr:BatchCheckLayerAvailability", "ecr:BatchGetImage", "ecr:GetDownloadUrlForLayer"]), toset(["arn:aws:ecr:us-east-1:111122223333:repository/job"])]
      WriteLogs     = [toset(["logs:CreateLogStream", "logs:PutLogEvents"]), toset([for name in ["c5.2xlarge", "g5.xlarge"] : "arn:aws:logs:us-east-1:111122223333:log-group:/aws/batch/test:log-stream:${name}/*"])]
    }
    error_message = "it pulls from one repository, and writes to the streams of its targets in one log group"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.instance.statement : statement.sid => [statement.actions, statement.resources] } == {
      FindEcs     = [toset(["ecs:DiscoverPollEndpoint"]), toset(["*"])]
      JoinCluster = [toset(["ecs:DeregisterContainerInstance", "ecs:RegisterContainerInstance", "ecs:SubmitAttachmentStateChanges", "ecs:SubmitContainerStateChange", "ecs:SubmitTaskStateChange"]), toset(["arn:aws:ecs:us-east-1:111122223333:cluster/AWSBatch-test-*", "arn:aws:ecs:us-east-1:111122223333:cluster/test-*_Batch_*"])]
      TakeTasks   = [toset(["ecs:Poll", "ecs:StartTelemetrySession", "ecs:UpdateContainerInstancesState"]), toset(["arn:aws:ecs:us-east-1:111122223333:container-instance/AWSBatch-test-*", "arn:aws:ecs:us-east-1:111122223333:container-instance/test-*_Batch_*"])]
      TagItself   = [toset(["ecs:TagResource"]), toset(["arn:aws:ecs:us-east-1:111122223333:container-instance/AWSBatch-test-*", "arn:aws:ecs:us-east-1:111122223333:container-instance/test-*_Batch_*"])]
    }
    error_message = "only the one call that takes no resource is allowed on all"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.instance.statement : statement.sid => [for condition in statement.condition : "${condition.test} ${condition.variable} ${join(" ", condition.values)}"] if length(statement.condition) > 0 } == {
      TakeTasks = ["ArnLike ecs:cluster arn:aws:ecs:us-east-1:111122223333:cluster/AWSBatch-test-* arn:aws:ecs:us-east-1:111122223333:cluster/test-*_Batch_*"]
      TagItself = ["StringEquals ecs:CreateAction RegisterContainerInstance"]
    }
    error_message = "an instance takes tasks of our clusters, and tags nothing but itself as it joins"
  }
}

run "roles_within_guardrails" {
  command = plan

  variables {
    iam_path                 = "/research/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
    instance_policy_arns     = ["arn:aws:iam::111122223333:policy/agents"]
    enable_session_manager   = true
  }

  assert {
    condition = alltrue([
      for role in concat([aws_iam_role.instance, aws_iam_role.execution], values(aws_iam_role.job)) :
      role.path == "/research/" && role.permissions_boundary == "arn:aws:iam::111122223333:policy/boundary"
    ]) && aws_iam_instance_profile.this.path == "/research/"
    error_message = "every role has the path and the boundary given"
  }

  assert {
    condition     = keys(aws_iam_role_policy_attachment.instance) == ["arn:aws:iam::111122223333:policy/agents", "arn:aws:iam::aws:policy/AmazonSSMManagedInstanceCore"]
    error_message = "instances have the further policies, and Session Manager's"
  }
}

run "further_images_are_pulled_too" {
  command = plan

  variables {
    further_images = [
      "111122223333.dkr.ecr.us-east-1.amazonaws.com/pictures/thumbnails:1.4",
      "444455556666.dkr.ecr.eu-west-1.amazonaws.com/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
      "111122223333.dkr.ecr.us-east-1.amazonaws.com/job:2",
      "nobody/quiet",
    ]
  }

  assert {
    condition = one([for statement in data.aws_iam_policy_document.pull_and_log.statement : statement.resources if statement.sid == "PullImage"]) == toset([
      "arn:aws:ecr:us-east-1:111122223333:repository/job",
      "arn:aws:ecr:us-east-1:111122223333:repository/pictures/thumbnails",
      "arn:aws:ecr:eu-west-1:444455556666:repository/train",
    ])
    error_message = "exactly the repositories that images are in, and nothing for other registries"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.pull_and_log.statement : join(" ", sort(statement.actions)) => statement.resources if statement.sid == "PullThroughCache" } == {
      "ecr:BatchImportUpstreamImage ecr:CreateRepository" = toset([
        "arn:aws:ecr:us-east-1:111122223333:repository/job",
        "arn:aws:ecr:us-east-1:111122223333:repository/pictures/thumbnails",
        "arn:aws:ecr:eu-west-1:444455556666:repository/train",
      ])
    }
    error_message = "the first pull through a cache makes the repository and imports the image"
  }

  assert {
    condition     = length(output.ecr_repository_arns) == 3 && length(output.retry_rules) == 4 && output.requests["c5.2xlarge"].device == "cpu"
    error_message = "your own jobs are told what they share with ours"
  }
}
