mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

################################################################################
# Lists of types
################################################################################

run "refuses_a_malformed_cpu_type" {
  command = plan

  variables {
    cpu_instance_types = ["C5.2xlarge"]
  }

  expect_failures = [var.cpu_instance_types]
}

run "refuses_a_type_in_both_lists" {
  command = plan

  variables {
    cpu_instance_types = ["c5.2xlarge", "g5.xlarge"]
  }

  expect_failures = [var.cpu_instance_types]
}

run "refuses_no_target_at_all" {
  command = plan

  variables {
    gpu_instance_types = []
    cpu_instance_types = []
  }

  expect_failures = [var.shared_targets]
}

run "refuses_machines_that_the_job_can_t_use" {
  command = plan

  variables {
    gpu_instance_types = ["m5.2xlarge", "g4ad.xlarge"]
    cpu_instance_types = ["c6g.2xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this["m5.2xlarge"]
    values = { supported_architectures = ["x86_64"], gpus = [] }
  }

  override_data {
    target = data.aws_ec2_instance_type.this["g4ad.xlarge"]
    values = {
      supported_architectures = ["x86_64"]
      gpus                    = [{ count = 1, manufacturer = "AMD", memory_size = 8192, name = "Radeon Pro V520" }]
    }
  }

  override_data {
    target = data.aws_ec2_instance_type.this["c6g.2xlarge"]
    values = { supported_architectures = ["arm64"], gpus = [] }
  }

  expect_failures = [
    data.aws_ec2_instance_type.this["m5.2xlarge"],
    data.aws_ec2_instance_type.this["g4ad.xlarge"],
    data.aws_ec2_instance_type.this["c6g.2xlarge"],
  ]
}

################################################################################
# What no instance type would make right
################################################################################

run "refuses_values_that_aws_does_not_take" {
  command = plan

  variables {
    gpu_instance_types       = ["g5"]
    max_vcpus                = 10001
    volume_size_gib          = 31
    volume_throughput_mib_s  = 1001
    volume_iops              = 4004
    runnable_timeout_seconds = 599
    log_retention_days       = 42
    purchasing               = "BEST_FIT"
    metrics_namespace        = "AWS/Batch"
    extra_user_data          = "#cloud-config\n"
  }

  expect_failures = [
    var.gpu_instance_types, var.max_vcpus, var.volume_size_gib, var.volume_throughput_mib_s, var.runnable_timeout_seconds,
    var.log_retention_days, var.purchasing, var.metrics_namespace, var.extra_user_data,
  ]
}

run "refuses_p3_a_malformed_namespace_and_mime" {
  command = plan

  variables {
    gpu_instance_types = ["p3.2xlarge"]
    metrics_namespace  = "a b"
    extra_user_data    = "MIME-Version: 1.0\nContent-Type: multipart/mixed\n"
  }

  expect_failures = [var.gpu_instance_types, var.metrics_namespace, var.extra_user_data]
}

run "refuses_a_fraction_of_a_gpu_and_an_arm_machine_with_one" {
  command = plan

  variables {
    gpu_instance_types = ["g6f.xlarge", "g5g.xlarge"]
  }

  expect_failures = [var.gpu_instance_types]
}

run "refuses_an_override_without_target_and_too_long_a_script" {
  command = plan

  variables {
    target_overrides = { "g6.xlarge" = { vcpus = 2 } }
    extra_user_data  = "#!/bin/bash\n${format("%08192d", 0)}"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_half_a_vcpu_and_service_ecs_start" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { vcpus = 0.5 } }
    extra_user_data  = "#!/bin/bash\nservice ecs start\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_negative_memory_and_starting_ecs" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { memory_mib = -1 } }
    extra_user_data  = "#!/bin/bash\nyum update && systemctl enable --now ecs\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_zero_gpus_and_restarting_ecs" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { gpus = 0 } }
    extra_user_data  = "#!/bin/bash\nsudo systemctl restart ecs.service --no-block\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_gpus_of_a_cpu_target_and_upstart" {
  command = plan

  variables {
    target_overrides = { "c5.2xlarge" = { gpus = 1 } }
    extra_user_data  = "#!/bin/bash\nstart ecs\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_zero_shared_memory_and_waiting_for_docker" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { shared_memory_mib = 0 } }
    extra_user_data  = "#!/bin/bash\nsystemctl restart docker\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_another_strategy_and_a_second_runtime" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { purchasing = "SPOT_CAPACITY_OPTIMIZED" } }
    extra_user_data  = "#!/bin/bash\necho '{\"runtimes\": {\"nvidia\": {\"path\": \"nvidia-container-runtime\"}}}' > /etc/docker/daemon.json\n"
  }

  expect_failures = [var.target_overrides, var.extra_user_data]
}

run "refuses_a_bid_on_demand" {
  command = plan

  variables {
    purchasing       = "on_demand"
    target_overrides = { "g5.xlarge" = { spot_bid_percentage = 50 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_bid_above_on_demand" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { spot_bid_percentage = 101 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_reservation_for_spot" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { capacity_reservation = "cr-0123456789abcdef0" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_capacity_block_for_spot" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { capacity_block = "cr-0123456789abcdef0" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_capacity_block_beside_a_reservation" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { purchasing = "on_demand", capacity_block = "cr-0123456789abcdef0", capacity_reservation = "cr-0123456789abcdef1" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_what_is_no_reservation" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { purchasing = "on_demand", capacity_reservation = "reserved" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_amazon_linux_2" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { image_type = "ECS_AL2_NVIDIA" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_an_image_without_driver" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { image_type = "ECS_AL2023" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_malformed_image_id" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { image_id = "latest" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_volume_without_room_for_the_images" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { volume_size_gib = 30 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_zero_max_vcpus" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { max_vcpus = 0 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_spot_limit_without_spot" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { spot_max_vcpus = 8, purchasing = "on_demand" } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_timeout_below_a_minute" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { timeout_seconds = 59 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_timeout_above_a_day" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { timeout_seconds = 86401 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_eleven_attempts" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { attempts = 11 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_a_cpu_target_falling_back" {
  command = plan

  variables {
    target_overrides = { "c5.2xlarge" = { allow_cpu_fallback = true } }
  }

  expect_failures = [var.target_overrides]
}

################################################################################
# What this instance type can't give
################################################################################

run "refuses_more_than_there_is" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge", "g6.xlarge", "g4dn.xlarge", "g5.12xlarge"]
    cpu_instance_types = ["c5.2xlarge", "m5.2xlarge"]

    target_overrides = {
      "g5.xlarge"   = { vcpus = 9 }
      "g6.xlarge"   = { gpus = 2 }
      "g4dn.xlarge" = { memory_mib = 4096, shared_memory_mib = 4096 }
      "g5.12xlarge" = { map_nvidia_device = true }
      "c5.2xlarge"  = { memory_mib = 16384 }
      "m5.2xlarge"  = { map_nvidia_device = true }
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
    aws_batch_job_definition.this["g5.xlarge"],
    aws_batch_job_definition.this["g6.xlarge"],
    aws_batch_job_definition.this["g4dn.xlarge"],
    aws_batch_job_definition.this["g5.12xlarge"],
    aws_batch_job_definition.this["c5.2xlarge"],
    aws_batch_job_definition.this["m5.2xlarge"],
  ]
}

run "refuses_a_driver_that_the_ami_lacks" {
  command = plan

  variables {
    gpu_instance_types = ["g7.2xlarge", "g7.4xlarge", "g7e.2xlarge"]
    cpu_instance_types = ["g7.8xlarge"]
    target_overrides   = { "g7.4xlarge" = { image_id = "ami-0123456789abcdef0" } }
    shared_targets     = { "g7-shared" = { instance_type = "g7.2xlarge", mode = "time_slicing", max_replicas = 4 } }
  }

  expect_failures = [aws_launch_template.this["g7.2xlarge"], aws_launch_template.this["g7-shared"]]
}

run "refuses_max_vcpus_below_one_instance" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { max_vcpus = 7 } }
  }

  expect_failures = [aws_batch_compute_environment.this["g5.xlarge/spot"], aws_batch_compute_environment.this["g5.xlarge/on_demand"]]
}

run "refuses_scratch_without_disks" {
  command = plan

  variables {
    target_overrides = { "c5.2xlarge" = { instance_store_scratch = true } }
  }

  expect_failures = [aws_launch_template.this["c5.2xlarge"]]
}

run "refuses_throughput_without_iops" {
  command = plan

  variables {
    volume_throughput_mib_s = 900
  }

  expect_failures = [var.volume_throughput_mib_s]
}

run "refuses_fewer_iops_than_gp3_has" {
  command = plan

  variables {
    volume_iops = 2999
  }

  expect_failures = [var.volume_iops]
}

run "refuses_a_misspelt_setting" {
  command = plan

  variables {
    target_overrides       = { "c5.2xlarge" = {} }
    target_overrides_given = { "c5.2xlarge" = { max_vcpu = 8 } }
  }

  expect_failures = [var.target_overrides_given]
}
