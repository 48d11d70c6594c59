mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

run "defaults" {
  command = plan

  assert {
    condition     = keys(aws_batch_compute_environment.this) == ["c5.2xlarge/on_demand", "c5.2xlarge/spot", "g5.xlarge/on_demand", "g5.xlarge/spot"]
    error_message = "each target has a Spot and an On-Demand environment of its own"
  }

  assert {
    condition     = { for key, environment in aws_batch_compute_environment.this : key => "${environment.compute_resources[0].type} ${environment.compute_resources[0].allocation_strategy}" if startswith(key, "g5") } == { "g5.xlarge/on_demand" = "EC2 BEST_FIT_PROGRESSIVE", "g5.xlarge/spot" = "SPOT SPOT_PRICE_CAPACITY_OPTIMIZED" }
    error_message = "each kind allocates by its own strategy"
  }

  assert {
    condition = alltrue([for environment in aws_batch_compute_environment.this : (
      environment.compute_resources[0].min_vcpus == 0 &&
      environment.compute_resources[0].desired_vcpus == 0 &&
      environment.compute_resources[0].max_vcpus == 64 &&
      length(environment.compute_resources[0].instance_type) == 1
    )])
    error_message = "idle environments run nothing, and each holds one instance type"
  }

  assert {
    condition     = { for key, environment in aws_batch_compute_environment.this : key => environment.compute_resources[0].ec2_configuration[0].image_type if endswith(key, "/spot") } == { "c5.2xlarge/spot" = "ECS_AL2023", "g5.xlarge/spot" = "ECS_AL2023_NVIDIA" }
    error_message = "GPU targets boot the NVIDIA image"
  }

  assert {
    condition     = aws_batch_compute_environment.this["g5.xlarge/spot"].compute_resources[0].launch_template[0].version == "3"
    error_message = "a changed launch template has to reach its environment"
  }

  assert {
    condition     = aws_batch_compute_environment.this["g5.xlarge/on_demand"].compute_environment_name_prefix == "test-g5-xlarge-on-demand-" && aws_batch_compute_environment.this["g5.xlarge/spot"].tags["Target"] == "g5.xlarge"
    error_message = "names and tags say which target it is"
  }

  assert {
    condition     = { for key, queue in aws_batch_job_queue.this : key => "${queue.name} ${length(queue.compute_environment_order)} ${queue.tags["Target"]}" if startswith(key, "g5") } == { "g5.xlarge" = "test-g5-xlarge 2 g5.xlarge", "g5.xlarge/on_demand" = "test-g5-xlarge-on-demand 1 g5.xlarge" }
    error_message = "beside the queue that tries both there is one for retries on On-Demand"
  }

  assert {
    condition     = length(output.job_queue_arns) == 4 && output.ecs_cluster_names["g5.xlarge/spot"] == "AWSBatch-mock" && keys(output.compute_environment_names) == keys(output.ecs_cluster_names)
    error_message = "everything that is to be watched can be named"
  }

  assert {
    condition = alltrue([for queue in aws_batch_job_queue.this : [for limit in queue.job_state_time_limit_action : "${limit.state} ${limit.action} ${limit.max_time_seconds} ${limit.reason}"] == [
      "RUNNABLE CANCEL 1800 CAPACITY:INSUFFICIENT_INSTANCE_CAPACITY",
      "RUNNABLE CANCEL 1800 MISCONFIGURATION:COMPUTE_ENVIRONMENT_MAX_RESOURCE",
      "RUNNABLE CANCEL 1800 MISCONFIGURATION:EC2_INSTANCE_CONFIGURATION_UNSUPPORTED",
      "RUNNABLE CANCEL 1800 MISCONFIGURATION:JOB_RESOURCE_REQUIREMENT",
    ]])
    error_message = "no job waits for ever, for any of the reasons that Batch knows"
  }

  assert {
    condition     = [for requirement in jsondecode(aws_batch_job_definition.this["c5.2xlarge"].container_properties).resourceRequirements : requirement.type] == ["VCPU", "MEMORY"]
    error_message = "it asks for no GPU"
  }

  assert {
    condition     = strcontains(join(" ", jsondecode(aws_batch_job_definition.this["c5.2xlarge"].container_properties).command), "--device cpu --threads 8") && !contains(jsondecode(aws_batch_job_definition.this["c5.2xlarge"].container_properties).command, "--allow-cpu-fallback")
    error_message = "it measures on the CPU"
  }

  assert {
    condition = jsonencode([for rule in aws_batch_job_definition.this["g5.xlarge"].retry_strategy[0].evaluate_on_exit : [upper(rule.action), rule.on_status_reason, rule.on_reason]]) == jsonencode([
      ["RETRY", "Host EC2*", null],
      ["RETRY", null, "CannotPullContainer*"],
      ["RETRY", null, "DockerTimeoutError*"],
      ["EXIT", null, "*"],
    ])
    error_message = "a lost host and a registry that did not answer are retried, the job's own errors are not"
  }

  assert {
    condition     = aws_batch_job_definition.this["g5.xlarge"].retry_strategy[0].attempts == 3
    error_message = "there are three attempts"
  }
}

# Mocks give all environments and queues the same ARN, so that the order needs ones of its own.
run "purchasing" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge", "g6.xlarge"]
    purchasing         = "on_demand"

    target_overrides = {
      "g5.xlarge" = { purchasing = "spot_first", spot_bid_percentage = 60 }
      "g6.xlarge" = { purchasing = "spot" }
    }
  }

  override_resource {
    target          = aws_batch_compute_environment.this["g5.xlarge/spot"]
    override_during = plan
    values = {
      arn                      = "arn:aws:batch:us-east-1:111122223333:compute-environment/spot"
      compute_environment_name = "spot"
    }
  }

  override_resource {
    target          = aws_batch_compute_environment.this["g5.xlarge/on_demand"]
    override_during = plan
    values = {
      arn                      = "arn:aws:batch:us-east-1:111122223333:compute-environment/on-demand"
      compute_environment_name = "on-demand"
    }
  }

  override_resource {
    target          = aws_batch_job_queue.this["g5.xlarge/on_demand"]
    override_during = plan
    values          = { arn = "arn:aws:batch:us-east-1:111122223333:job-queue/on-demand" }
  }

  assert {
    condition     = keys(aws_batch_compute_environment.this) == ["c5.2xlarge/on_demand", "g5.xlarge/on_demand", "g5.xlarge/spot", "g6.xlarge/spot"] && keys(aws_batch_job_queue.this) == ["c5.2xlarge", "g5.xlarge", "g5.xlarge/on_demand", "g6.xlarge"]
    error_message = "a target has only what it buys from, and an On-Demand queue only beside one that tries Spot"
  }

  assert {
    condition = { for key in ["g5.xlarge", "g5.xlarge/on_demand"] : key => [for order in aws_batch_job_queue.this[key].compute_environment_order : "${order.order} ${order.compute_environment}"] } == {
      "g5.xlarge"           = ["1 arn:aws:batch:us-east-1:111122223333:compute-environment/spot", "2 arn:aws:batch:us-east-1:111122223333:compute-environment/on-demand"]
      "g5.xlarge/on_demand" = ["1 arn:aws:batch:us-east-1:111122223333:compute-environment/on-demand"]
    }
    error_message = "On-Demand is what is tried when there is no Spot capacity"
  }

  assert {
    condition = { for name, target in output.targets : name => [target.compute_environments.spot, target.compute_environments.on_demand, target.on_demand_queue] } == {
      "c5.2xlarge" = [null, "mock", "arn:aws:batch:us-east-1:111122223333:job-queue/mock"]
      "g5.xlarge"  = ["spot", "on-demand", "arn:aws:batch:us-east-1:111122223333:job-queue/on-demand"]
      "g6.xlarge"  = ["mock", null, null]
    }
    error_message = "the output tells them apart"
  }

  assert {
    condition     = jsonencode({ for key, environment in aws_batch_compute_environment.this : key => environment.compute_resources[0].bid_percentage if startswith(key, "g") }) == jsonencode({ "g5.xlarge/on_demand" = null, "g5.xlarge/spot" = 60, "g6.xlarge/spot" = null })
    error_message = "the most to pay for Spot is Spot's alone"
  }
}

run "cpu_targets_may_have_an_image_of_their_own" {
  command = plan

  variables {
    cpu_image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/job:1-cpu"
  }

  assert {
    condition     = { for type, definition in aws_batch_job_definition.this : type => jsondecode(definition.container_properties).image if contains(["c5.2xlarge", "g5.xlarge"], type) } == { "c5.2xlarge" = var.cpu_image, "g5.xlarge" = var.image }
    error_message = "CPU targets run the slim image, GPU targets the other"
  }
}

run "job_definition_of_a_gpu_target" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { allow_cpu_fallback = true, shared_memory_mib = 8000 } }
  }

  override_resource {
    target          = aws_iam_role.job["g5.xlarge"]
    values          = { arn = "arn:aws:iam::111122223333:role/of-g5" }
    override_during = plan
  }

  assert {
    condition = jsondecode(aws_batch_job_definition.this["g5.xlarge"].container_properties) == {
      image = "111122223333.dkr.ecr.us-east-1.amazonaws.com/job:1"
      command = [
        "python", "-m", "batchmark_job", "run", "--suite", "Ref::suite", "--dtype", "Ref::dtype", "--device", "cuda",
        "--threads", "8", "--run-id", "Ref::run_id", "--target", "g5.xlarge", "--output", "Ref::output",
        "--metrics-namespace", "Batchmark", "--allow-cpu-fallback",
      ]
      resourceRequirements = [
        { type = "VCPU", value = "8" },
        { type = "MEMORY", value = "14336" },
        { type = "GPU", value = "1" },
      ]
      environment      = [{ name = "AWS_DEFAULT_REGION", value = "us-east-1" }, { name = "HOME", value = "/tmp" }, { name = "BATCHMARK_ROOT_VOLUME", value = "gp3, 64 GiB, 500 MiB/s, 3000 IOPS" }]
      jobRoleArn       = "arn:aws:iam::111122223333:role/of-g5"
      executionRoleArn = "arn:aws:iam::111122223333:role/mock"

      user                   = "10001"
      privileged             = false
      readonlyRootFilesystem = true

      linuxParameters = {
        initProcessEnabled = true
        sharedMemorySize   = 8000
        tmpfs              = [{ containerPath = "/tmp", size = 512, mountOptions = ["rw", "exec", "nosuid", "nodev"] }]
        devices            = []
      }
      volumes     = []
      mountPoints = []

      logConfiguration = {
        logDriver = "awslogs"
        options   = { awslogs-group = "/aws/batch/test", awslogs-region = "us-east-1", awslogs-stream-prefix = "g5.xlarge", mode = "blocking" }
      }
    }
    error_message = "the container is as the job container's command line and Batch want it"
  }

  assert {
    condition     = aws_batch_job_definition.this["g5.xlarge"].parameters == tomap({ suite = "smoke", dtype = "suite", run_id = "manual", output = "s3://results/raw/manual/g5.xlarge/" })
    error_message = "a bare submit-job works"
  }

  assert {
    condition     = aws_batch_job_definition.this["g5.xlarge"].propagate_tags && aws_batch_job_definition.this["g5.xlarge"].timeout[0].attempt_duration_seconds == 3600
    error_message = "tasks carry the tags, and end"
  }
}

run "overrides" {
  command = plan

  variables {
    target_overrides = {
      "g5.xlarge" = {
        vcpus             = 2, memory_mib = 4096, max_vcpus = 8, timeout_seconds = 60, attempts = 1
        image_type        = "ECS_AL2023_NVIDIA", image_id = "ami-0123456789abcdef0", volume_size_gib = 200
        map_nvidia_device = true, instance_store_scratch = true, readonly_root_filesystem = false
      }
    }
  }

  override_data {
    target = data.aws_ec2_instance_type.this["g5.xlarge"]
    values = {
      supported_architectures    = ["x86_64"]
      default_vcpus              = 8
      memory_size                = 16384
      gpus                       = [{ count = 1, manufacturer = "NVIDIA", memory_size = 24576, name = "A10G" }]
      instance_storage_supported = true
    }
  }

  assert {
    condition     = !jsondecode(aws_batch_job_definition.this["g5.xlarge"].container_properties).readonlyRootFilesystem && jsondecode(aws_batch_job_definition.this["c5.2xlarge"].container_properties).readonlyRootFilesystem
    error_message = "a target's image may write to its root"
  }

  assert {
    condition     = alltrue([for purchase in ["spot", "on_demand"] : [for image in aws_batch_compute_environment.this["g5.xlarge/${purchase}"].compute_resources[0].ec2_configuration : "${image.image_type} ${image.image_id_override}"] == ["ECS_AL2023_NVIDIA ami-0123456789abcdef0"]])
    error_message = "both environments boot the chosen image"
  }

  assert {
    condition     = { for name, target in output.targets : name => true if can(target.given_ami) } == { "g5.xlarge" = true }
    error_message = "Airflow is told that this image is nobody's to renew but the user's"
  }

  assert {
    condition     = { for type, template in aws_launch_template.this : type => template.block_device_mappings[0].ebs[0].volume_size } == { "c5.2xlarge" = 64, "g5.xlarge" = 200 }
    error_message = "a target may have a volume size of its own"
  }

  assert {
    condition = jsonencode([for part in ["linuxParameters", "volumes", "mountPoints", "environment"] : jsondecode(aws_batch_job_definition.this["g5.xlarge"].container_properties)[part]]) == jsonencode([
      {
        devices            = [{ hostPath = "/dev/nvidia0", containerPath = "/dev/nvidia0", permissions = ["READ", "WRITE", "MKNOD"] }]
        initProcessEnabled = true
        sharedMemorySize   = 2048
        tmpfs              = [{ containerPath = "/tmp", size = 512, mountOptions = ["rw", "exec", "nosuid", "nodev"] }]
      },
      [{ name = "scratch", host = { sourcePath = "/scratch" } }],
      [{ sourceVolume = "scratch", containerPath = "/scratch", readOnly = false }],
      [{ name = "AWS_DEFAULT_REGION", value = "us-east-1" }, { name = "HOME", value = "/tmp" }, { name = "BATCHMARK_ROOT_VOLUME", value = "gp3, 200 GiB, 500 MiB/s, 3000 IOPS" }, { name = "SCRATCH_DIR", value = "/scratch" }],
    ])
    error_message = "device and scratch folder reach the job, and shared memory leaves it half of its memory"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.xlarge"].user_data), "\nmount -o noatime \"$scratch\" /scratch\n") && !strcontains(base64decode(aws_launch_template.this["c5.2xlarge"].user_data), "scratch")
    error_message = "the host prepares the scratch folder where it is asked for"
  }

  assert {
    condition     = aws_batch_compute_environment.this["g5.xlarge/spot"].compute_resources[0].max_vcpus == 8 && aws_batch_compute_environment.this["c5.2xlarge/spot"].compute_resources[0].max_vcpus == 64
    error_message = "an override is its own target's alone"
  }

  assert {
    condition = [
      output.targets["g5.xlarge"].vcpus, output.targets["g5.xlarge"].memory_mib, output.targets["g5.xlarge"].gpus,
      output.targets["g5.xlarge"].timeout_seconds, output.targets["g5.xlarge"].attempts, output.targets["g5.xlarge"].allow_cpu_fallback,
    ] == [2, 4096, 1, 60, 1, false]
    error_message = "what is overridden changes, what is not stays derived"
  }
}

run "several_gpus" {
  command = plan

  variables {
    gpu_instance_types = ["g5.12xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this["g5.12xlarge"]
    values = {
      supported_architectures = ["x86_64"]
      default_vcpus           = 48
      memory_size             = 196608
      gpus                    = [{ count = 4, manufacturer = "NVIDIA", memory_size = 24576, name = "A10G" }]
    }
  }

  assert {
    condition     = output.targets["g5.12xlarge"].gpus == 4 && output.targets["g5.12xlarge"].vcpus == 48 && output.targets["g5.12xlarge"].memory_mib == 172032
    error_message = "a job takes the whole machine, and leaves an eighth of its memory to the host"
  }

  assert {
    condition     = [for type in ["g5.12xlarge", "c5.2xlarge"] : jsondecode(aws_batch_job_definition.this[type].container_properties).linuxParameters.sharedMemorySize] == [16384, 1024]
    error_message = "shared memory grows with the GPUs"
  }

  assert {
    condition     = strcontains(base64decode(aws_launch_template.this["g5.12xlarge"].user_data), "[ \"$seen\" -ge 4 ]")
    error_message = "a host that lacks one of its GPUs takes no jobs"
  }
}
