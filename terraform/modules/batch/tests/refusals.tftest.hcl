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

run "refuses_a_malformed_gpu_type" {
  command = plan

  variables {
    gpu_instance_types = ["g5"]
  }

  expect_failures = [var.gpu_instance_types]
}

run "refuses_a_malformed_cpu_type" {
  command = plan

  variables {
    cpu_instance_types = ["C5.2xlarge"]
  }

  expect_failures = [var.cpu_instance_types]
}

run "refuses_p3" {
  command = plan

  variables {
    gpu_instance_types = ["p3.2xlarge"]
  }

  expect_failures = [var.gpu_instance_types]
}

run "refuses_g3" {
  command = plan

  variables {
    gpu_instance_types = ["g3.4xlarge"]
  }

  expect_failures = [var.gpu_instance_types]
}

run "refuses_a_type_in_both_lists" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge"]
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

  expect_failures = [var.cpu_instance_types]
}

run "refuses_an_override_without_target" {
  command = plan

  variables {
    target_overrides = { "g6.xlarge" = { vcpus = 2 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_zero_vcpus" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { vcpus = 0 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_half_a_vcpu" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { vcpus = 0.5 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_more_vcpus_than_there_are" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { vcpus = 9 } }
  }

  expect_failures = [aws_batch_job_definition.this["g5.xlarge"]]
}

run "refuses_negative_memory" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { memory_mib = -1 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_all_of_the_memory" {
  command = plan

  variables {
    target_overrides = { "c5.2xlarge" = { memory_mib = 16384 } }
  }

  expect_failures = [aws_batch_job_definition.this["c5.2xlarge"]]
}

run "refuses_zero_gpus" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { gpus = 0 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_more_gpus_than_there_are" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { gpus = 2 } }
  }

  expect_failures = [aws_batch_job_definition.this["g5.xlarge"]]
}

run "refuses_gpus_of_a_cpu_target" {
  command = plan

  variables {
    target_overrides = { "c5.2xlarge" = { gpus = 1 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_zero_shared_memory" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { shared_memory_mib = 0 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_more_shared_memory_than_memory" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { memory_mib = 4096, shared_memory_mib = 4096 } }
  }

  expect_failures = [aws_batch_job_definition.this["g5.xlarge"]]
}

run "refuses_zero_max_vcpus" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { max_vcpus = 0 } }
  }

  expect_failures = [var.target_overrides]
}

run "refuses_numbers_that_aws_does_not_take" {
  command = plan

  variables {
    max_vcpus                = 10001
    volume_size_gib          = 31
    runnable_timeout_seconds = 599
    log_retention_days       = 42
  }

  expect_failures = [var.max_vcpus, var.volume_size_gib, var.runnable_timeout_seconds, var.log_retention_days]
}

run "refuses_max_vcpus_below_one_instance" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { max_vcpus = 7 } }
  }

  expect_failures = [aws_batch_compute_environment.this["g5.xlarge/spot"], aws_batch_compute_environment.this["g5.xlarge/on_demand"]]
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

run "refuses_zero_attempts" {
  command = plan

  variables {
    target_overrides = { "g5.xlarge" = { attempts = 0 } }
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

run "refuses_a_gpu_target_without_gpu" {
  command = plan

  variables {
    gpu_instance_types = ["m5.2xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this["m5.2xlarge"]
    values = { gpus = [] }
  }

  expect_failures = [data.aws_ec2_instance_type.this["m5.2xlarge"]]
}

run "refuses_an_amd_gpu" {
  command = plan

  variables {
    gpu_instance_types = ["g4ad.xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this["g4ad.xlarge"]
    values = { gpus = [{ count = 1, manufacturer = "AMD", memory_size = 8192, name = "Radeon Pro V520" }] }
  }

  expect_failures = [data.aws_ec2_instance_type.this["g4ad.xlarge"]]
}

run "refuses_arm" {
  command = plan

  variables {
    cpu_instance_types = ["c6g.2xlarge"]
  }

  override_data {
    target = data.aws_ec2_instance_type.this["c6g.2xlarge"]
    values = { supported_architectures = ["arm64"] }
  }

  expect_failures = [data.aws_ec2_instance_type.this["c6g.2xlarge"]]
}
