mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

run "refuses_a_name_with_capitals" {
  command = plan

  variables {
    own_jobs = {
      Thumbnails = { image = "nobody/job:1", command = ["run"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_no_job" {
  command = plan

  variables {
    own_jobs = {}
  }

  expect_failures = [var.own_jobs]
}

run "refuses_neither_image_nor_images" {
  command = plan

  variables {
    own_jobs = {
      job = { command = ["run"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_image_and_images" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", images = { cpu = "nobody/job:1", cuda = "nobody/job:2" }, command = ["run"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_image_that_is_none" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job 1", command = ["run"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_no_command_to_watch" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_axis_called_as_what_results_have" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::unit"], axis = { parameter = "unit", sizes = [1, 2] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_axis_that_the_command_lacks" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::sizes"], parameters = { sizes = "1" }, axis = { parameter = "size", sizes = [1, 2] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_malformed_parameter" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::2size"], axis = { parameter = "2size", sizes = [1, 2] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_size_of_nothing" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::size"], axis = { parameter = "size", sizes = [0, 1] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_no_size" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::size"], axis = { parameter = "size", sizes = [] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_size_twice" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::size"], axis = { parameter = "size", sizes = [1, 1.0] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_more_than_20_sizes" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::size"], axis = { parameter = "size", sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18, 19, 20, 21] } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_placeholder_without_a_value" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "--size=Ref::size"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_timeout_that_batch_does_not_take" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], timeout_seconds = 59 }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_too_many_attempts" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], attempts = 11 }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_unknown_target" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], targets = ["c5.2xlarge", "c6i.large"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_target_whose_jobs_share" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], targets = ["g5.xlarge-shared"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_half_a_vcpu" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], vcpus = 0.5 }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_gpus_without_a_gpu_target" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], gpus = 1, targets = ["c5.2xlarge"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_variables_of_batch" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], environment = { AWS_BATCH_JOB_ID = "1" } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_variables_of_ours" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets = { BATCHMARK_CHECK = "arn:aws:ssm:us-east-1:111122223333:parameter/a" } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_variable_twice" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], environment = { A = "1" }, secrets = { A = "arn:aws:ssm:us-east-1:111122223333:parameter/a" } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_secret_in_the_open" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets = { TOKEN = "hunter2" } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_secrets_by_wildcard" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets = { TOKEN = "arn:aws:ssm:us-east-1:111122223333:parameter/*" } }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_all_keys" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets = { TOKEN = "arn:aws:ssm:us-east-1:111122223333:parameter/token" }, secrets_kms_key_arns = ["arn:aws:kms:us-east-1:111122223333:key/*"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_key_by_its_alias" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets = { TOKEN = "arn:aws:ssm:us-east-1:111122223333:parameter/token" }, secrets_kms_key_arns = ["arn:aws:kms:us-east-1:111122223333:alias/team"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_key_for_no_secret" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], secrets_kms_key_arns = ["arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_folder_of_the_system" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/var/run", path = "/run" }] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_the_hosts_homes" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/home/ec2-user", path = "/host" }] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_the_whole_host" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/", path = "/host" }] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_way_around" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/mnt/../etc", path = "/host" }] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_mount_over_proc" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/mnt/a", path = "/proc" }] }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_check_without_a_shell" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", shell = false, check = "true" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_output_without_a_shell" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", shell = false, output = "a" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_checksum_of_nothing" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], output_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_checksum_for_many_sizes" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run", "Ref::size"], axis = { parameter = "size", sizes = [1, 2] }, output = "a", output_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_malformed_checksum" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], output = "a", output_sha256 = "abc" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_any_role" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], job_role_arn = "arn:aws:iam::111122223333:role/*" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_more_vcpus_than_the_target_has" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], vcpus = 6 }
    }
  }

  expect_failures = [aws_batch_job_definition.this["job/g5.xlarge"]]
}

run "refuses_more_memory_than_the_target_has" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], memory_mib = 14337, targets = ["c5.2xlarge"] }
    }
  }

  expect_failures = [aws_batch_job_definition.this["job/c5.2xlarge"]]
}

run "refuses_more_gpus_than_the_target_has" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], gpus = 2, targets = ["g5.xlarge"] }
    }
  }

  expect_failures = [aws_batch_job_definition.this["job/g5.xlarge"]]
}

run "refuses_jobs_without_a_target_of_their_own" {
  command = plan

  variables {
    targets = {
      "g5.xlarge-shared" = { device = "cuda", vcpus = 1, memory_mib = 2048, gpus = 0, sharing = "mps" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_misspelt_field" {
  command = plan

  variables {
    own_jobs       = { job = { image = "nobody/job:1", command = ["run"] } }
    own_jobs_given = { job = { image = "nobody/job:1", command = ["run"], timeout = 60 } }
  }

  expect_failures = [var.own_jobs_given]
}

run "refuses_a_misspelt_field_of_a_mount" {
  command = plan

  variables {
    own_jobs       = { job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/mnt/a", path = "/a" }] } }
    own_jobs_given = { job = { image = "nobody/job:1", command = ["run"], mounts = [{ source = "/mnt/a", path = "/a", readonly = false }] } }
  }

  expect_failures = [var.own_jobs_given]
}

run "refuses_a_schedule_that_is_none" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], schedule = "every monday" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_hour_that_no_day_has" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], schedule = "0 24 * * *" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_schedule_with_seconds" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], schedule = "0 0 3 * * 1" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_schedule_that_runs_at_once" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], schedule = "@once" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_label_of_two_lines" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], label = "a\nb" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_an_empty_commit" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], commit = "" }
    }
  }

  expect_failures = [var.own_jobs]
}

run "refuses_a_branch_that_turns_the_text" {
  command = plan

  variables {
    own_jobs = {
      job = { image = "nobody/job:1", command = ["run"], branch = "a\u202eb" }
    }
  }

  expect_failures = [var.own_jobs]
}
