mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

variables {
  gpu_instance_types = ["g5.8xlarge"]

  shared_targets = {
    "g5.8xlarge-shared" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 }
    "g5.8xlarge-mps"    = { instance_type = "g5.8xlarge", mode = "mps", max_replicas = 8 }
  }
}

override_data {
  target = data.aws_ec2_instance_type.this["g5.8xlarge"]
  values = {
    supported_architectures    = ["x86_64"]
    default_vcpus              = 32
    memory_size                = 131072
    gpus                       = [{ count = 1, manufacturer = "NVIDIA", memory_size = 24576, name = "A10G" }]
    instance_storage_supported = true
  }
}

run "shared_targets_beside_an_exclusive_one" {
  command = plan

  assert {
    condition     = keys(aws_batch_compute_environment.this) == ["c5.2xlarge/on_demand", "c5.2xlarge/spot", "g5.8xlarge-mps/on_demand", "g5.8xlarge-shared/on_demand", "g5.8xlarge/on_demand", "g5.8xlarge/spot"] && keys(aws_batch_job_queue.this) == ["c5.2xlarge", "c5.2xlarge/on_demand", "g5.8xlarge", "g5.8xlarge-mps", "g5.8xlarge-shared", "g5.8xlarge/on_demand"]
    error_message = "one environment and one queue each, On-Demand alone"
  }

  assert {
    condition = jsonencode({ for key, environment in aws_batch_compute_environment.this : key => [environment.compute_environment_name_prefix, environment.compute_resources[0].instance_type, environment.compute_resources[0].allocation_strategy, environment.compute_resources[0].max_vcpus, length(environment.update_policy)] if startswith(key, "g5") }) == jsonencode({
      "g5.8xlarge-mps/on_demand"    = ["test-g5-8xlarge-mps-on-demand-", ["g5.8xlarge"], "BEST_FIT", 32, 0]
      "g5.8xlarge-shared/on_demand" = ["test-g5-8xlarge-shared-on-demand-", ["g5.8xlarge"], "BEST_FIT", 32, 0]
      "g5.8xlarge/on_demand"        = ["test-g5-8xlarge-on-demand-", ["g5.8xlarge"], "BEST_FIT_PROGRESSIVE", 64, 1]
      "g5.8xlarge/spot"             = ["test-g5-8xlarge-spot-", ["g5.8xlarge"], "SPOT_PRICE_CAPACITY_OPTIMIZED", 64, 1]
    })
    error_message = "a shared environment never has two instances, whose replicas would not meet"
  }

  assert {
    condition = { for name, target in output.targets : name => [target.device, target.instance_type, target.vcpus, target.memory_mib, target.gpus] } == {
      "c5.2xlarge"        = ["cpu", "c5.2xlarge", 8, 14336, 0]
      "g5.8xlarge"        = ["cuda", "g5.8xlarge", 32, 114688, 1]
      "g5.8xlarge-mps"    = ["cuda", "g5.8xlarge", 4, 14336, 0]
      "g5.8xlarge-shared" = ["cuda", "g5.8xlarge", 1, 5734, 0]
    }
    error_message = "each job asks for its share of the instance, and for no GPU"
  }

  assert {
    condition     = jsonencode({ for name, target in output.targets : name => [target.sharing, target.max_replicas] if can(target.sharing) }) == jsonencode({ "g5.8xlarge-mps" = ["mps", 8], "g5.8xlarge-shared" = ["time_slicing", 20] })
    error_message = "only shared targets say how they share"
  }

  assert {
    condition     = output.targets["g5.8xlarge-shared"].on_demand_queue == output.targets["g5.8xlarge-shared"].job_queue && output.targets["g5.8xlarge-shared"].compute_environments.spot == null
    error_message = "its queue is an On-Demand queue"
  }

  assert {
    condition     = { for name, definition in aws_batch_job_definition.this : name => [for requirement in jsondecode(definition.container_properties).resourceRequirements : "${requirement.type} ${requirement.value}"] if startswith(name, "g5") } == { "g5.8xlarge" = ["VCPU 32", "MEMORY 114688", "GPU 1"], "g5.8xlarge-mps" = ["VCPU 4", "MEMORY 14336"], "g5.8xlarge-shared" = ["VCPU 1", "MEMORY 5734"] }
    error_message = "without a GPU requirement Batch places many on one GPU"
  }

  assert {
    condition     = strcontains(join(" ", jsondecode(aws_batch_job_definition.this["g5.8xlarge-shared"].container_properties).command), "--device cuda --threads 1 --run-id Ref::run_id --target g5.8xlarge-shared ") && aws_batch_job_definition.this["g5.8xlarge-shared"].name == "test-g5-8xlarge-shared" && aws_batch_job_queue.this["g5.8xlarge-shared"].name == "test-g5-8xlarge-shared"
    error_message = "job, queue and results are called after the target"
  }

  assert {
    condition = jsonencode({ for name, definition in aws_batch_job_definition.this : name => [for part in ["volumes", "mountPoints"] : jsondecode(definition.container_properties)[part]] if startswith(name, "g5") }) == jsonencode({
      "g5.8xlarge" = [[], []]
      "g5.8xlarge-mps" = [
        [{ host = { sourcePath = "/run/mps-ecs" }, name = "mps-pipes" }, { host = { sourcePath = "/dev/shm" }, name = "shared-memory" }, { host = { sourcePath = "/sharing" }, name = "sharing" }],
        [{ containerPath = "/run/mps-ecs", readOnly = false, sourceVolume = "mps-pipes" }, { containerPath = "/dev/shm", readOnly = false, sourceVolume = "shared-memory" }, { containerPath = "/sharing", readOnly = false, sourceVolume = "sharing" }],
      ]
      "g5.8xlarge-shared" = [
        [{ host = { sourcePath = "/sharing" }, name = "sharing" }],
        [{ containerPath = "/sharing", readOnly = false, sourceVolume = "sharing" }],
      ]
    })
    error_message = "replicas meet in a folder of their host, MPS clients at its daemon"
  }

  assert {
    condition = { for name, definition in aws_batch_job_definition.this : name => { for variable in jsondecode(definition.container_properties).environment : variable.name => variable.value if !contains(["AWS_DEFAULT_REGION", "HOME", "BATCHMARK_ROOT_VOLUME"], variable.name) } if startswith(name, "g5") } == {
      "g5.8xlarge"        = {}
      "g5.8xlarge-mps"    = { BATCHMARK_SHARING_FOLDER = "/sharing", CUDA_MPS_PIPE_DIRECTORY = "/run/mps-ecs", NVIDIA_VISIBLE_DEVICES = "all" }
      "g5.8xlarge-shared" = { BATCHMARK_SHARING_FOLDER = "/sharing", NVIDIA_VISIBLE_DEVICES = "all" }
    }
    error_message = "the default runtime shows them the GPU"
  }

  assert {
    condition     = { for name, template in aws_launch_template.this : name => [strcontains(base64decode(template.user_data), "chown 10001 /sharing"), strcontains(base64decode(template.user_data), "/run/mps-ecs/control"), strcontains(base64decode(template.user_data), "settings[\"default-runtime\"] = \"nvidia\"")] if startswith(name, "g5") } == { "g5.8xlarge" = [false, false, true], "g5.8xlarge-mps" = [true, true, true], "g5.8xlarge-shared" = [true, false, true] }
    error_message = "hosts have the folder, the runtime and the daemon"
  }

  assert {
    condition     = { for tags in aws_launch_template.this["g5.8xlarge-shared"].tag_specifications : tags.resource_type => tags.tags["Target"] } == { instance = "g5.8xlarge-shared", volume = "g5.8xlarge-shared" }
    error_message = "the bill tells shared instances from exclusive ones"
  }
}

run "settings_of_a_shared_target" {
  command = plan

  variables {
    gpu_instance_types = []
    cpu_instance_types = []

    shared_targets = {
      "g5.8xlarge-shared" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 }
    }

    target_overrides = {
      "g5.8xlarge-shared" = { memory_mib = 2048, timeout_seconds = 600, allow_cpu_fallback = true, capacity_reservation = "cr-0123456789abcdef0", instance_store_scratch = true }
    }
  }

  assert {
    condition     = [output.targets["g5.8xlarge-shared"].memory_mib, output.targets["g5.8xlarge-shared"].timeout_seconds, output.targets["g5.8xlarge-shared"].allow_cpu_fallback] == [2048, 600, true]
    error_message = "a target is set by its name, and may stand alone"
  }

  assert {
    condition     = [for volume in jsondecode(aws_batch_job_definition.this["g5.8xlarge-shared"].container_properties).volumes : volume.host.sourcePath] == ["/scratch", "/sharing"]
    error_message = "it may have a scratch folder, too"
  }
}

################################################################################
# What can't be shared
################################################################################

run "refuses_more_replicas_than_vcpus_several_gpus_and_too_much_memory" {
  command = plan

  variables {
    shared_targets = {
      "g5.xlarge-shared"   = { instance_type = "g5.xlarge", mode = "time_slicing", max_replicas = 20 }
      "g5.12xlarge-shared" = { instance_type = "g5.12xlarge", mode = "time_slicing", max_replicas = 20 }
      "g5.8xlarge-vcpus"   = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 }
      "g5.8xlarge-memory"  = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 }
    }

    target_overrides = {
      "g5.8xlarge-vcpus"  = { vcpus = 2 }
      "g5.8xlarge-memory" = { memory_mib = 8192 }
    }
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

  expect_failures = [
    aws_batch_job_definition.this["g5.xlarge-shared"],
    aws_batch_job_definition.this["g5.12xlarge-shared"],
    aws_batch_job_definition.this["g5.8xlarge-vcpus"],
    aws_batch_job_definition.this["g5.8xlarge-memory"],
  ]
}

run "refuses_a_type_without_a_gpu" {
  command = plan

  variables {
    shared_targets = { "m5.2xlarge-shared" = { instance_type = "m5.2xlarge", mode = "time_slicing", max_replicas = 4 } }
  }

  override_data {
    target = data.aws_ec2_instance_type.this["m5.2xlarge"]
    values = { supported_architectures = ["x86_64"], default_vcpus = 8, memory_size = 32768, gpus = [] }
  }

  expect_failures = [data.aws_ec2_instance_type.this["m5.2xlarge"]]
}

run "refuses_an_instance_types_name" {
  command = plan

  variables {
    shared_targets = { "g5.8xlarge" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_a_name_that_is_its_own_type" {
  command = plan

  variables {
    gpu_instance_types = []
    shared_targets     = { "g5.8xlarge" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_a_name_with_capitals" {
  command = plan

  variables {
    shared_targets = { "Shared" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_a_name_that_ends_as_a_queue" {
  command = plan

  variables {
    shared_targets = { "g5.8xlarge-on-demand" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_a_name_that_differs_by_a_dot" {
  command = plan

  variables {
    shared_targets = { "g5-8xlarge" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 20 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_p3" {
  command = plan

  variables {
    shared_targets = { "p3-shared" = { instance_type = "p3.2xlarge", mode = "time_slicing", max_replicas = 8 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_a_fraction_of_a_gpu_and_an_arm_machine_with_one" {
  command = plan

  variables {
    shared_targets = {
      "g6f-shared" = { instance_type = "g6f.xlarge", mode = "time_slicing", max_replicas = 2 }
      "g5g-shared" = { instance_type = "g5g.xlarge", mode = "time_slicing", max_replicas = 2 }
    }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_streams" {
  command = plan

  variables {
    shared_targets = { "g5.8xlarge-streams" = { instance_type = "g5.8xlarge", mode = "streams", max_replicas = 8 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_one_replica" {
  command = plan

  variables {
    shared_targets = { "g5.8xlarge-shared" = { instance_type = "g5.8xlarge", mode = "mps", max_replicas = 1 } }
  }

  expect_failures = [var.shared_targets]
}

run "refuses_spot_for_a_shared_target" {
  command = plan

  variables {
    target_overrides = { "g5.8xlarge-shared" = { purchasing = "spot" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_second_instance" {
  command = plan

  variables {
    target_overrides = { "g5.8xlarge-shared" = { max_vcpus = 64 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_gpus_of_a_shared_target" {
  command = plan

  variables {
    target_overrides = { "g5.8xlarge-shared" = { gpus = 1 } }
  }

  expect_failures = [var.target_overrides]
}
