mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

run "defaults" {
  command = plan

  assert {
    condition     = keys(output.targets) == ["c5.2xlarge", "c5n.2xlarge", "g4dn.xlarge", "g5.xlarge", "g6.xlarge", "m5.2xlarge"]
    error_message = "the default targets are S2's, without the p3 that AL2023 can't run"
  }

  assert {
    condition     = alltrue([for name, target in output.targets : target.device == (startswith(name, "g") ? "cuda" : "cpu")])
    error_message = "GPU types measure on CUDA, CPU types on the CPU"
  }

  assert {
    condition     = output.image == "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0" && output.cpu_image == output.image
    error_message = "the job image is the repository's own, by tag, and the same for all targets"
  }

  assert {
    condition     = keys(output.submit_gpu_job_command) == ["g4dn.xlarge", "g5.xlarge", "g6.xlarge"] && keys(output.submit_cpu_job_command) == ["c5.2xlarge", "c5n.2xlarge", "m5.2xlarge"]
    error_message = "there is a submit command per target"
  }

  assert {
    condition     = length(module.encryption) == 0 && module.network[0].flow_log_group_name == null && output.airflow_role_arn == null
    error_message = "nothing that costs by the hour or month is on by default"
  }

  assert {
    condition     = length(module.monitoring.alarm_names) == 12 && length(module.monitoring.launch_alarm_names) == 12 && length(module.budget) == 1
    error_message = "every compute environment is watched, and there is a budget"
  }

  assert {
    condition     = output.log_tail_command == "aws logs tail /aws/batch/batchmark --region us-east-1 --since 1h --follow" && strcontains(output.destroy_note, "s3://results")
    error_message = "what a user types next can be pasted as it is"
  }

  assert {
    condition     = output.submit_gpu_job_command["g5.xlarge"] == "aws batch submit-job --region us-east-1 --job-name batchmark-manual --job-queue arn:aws:batch:us-east-1:111122223333:job-queue/mock --job-definition arn:aws:batch:us-east-1:111122223333:job-definition/mock:1 --parameters suite=smoke"
    error_message = "the submit command can be pasted as it is"
  }

  assert {
    condition     = length(module.own_jobs) == 0 && length(aws_ssm_parameter.own_jobs) == 0 && output.own_jobs == {}
    error_message = "no role, no definition and no parameter"
  }
}

# The contract with Airflow: every field, its value and its type.
run "parameters_for_airflow" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge"]
    cpu_instance_types = ["c5.2xlarge"]

    target_overrides = {
      "g5.xlarge"  = { allow_cpu_fallback = true, attempts = 5, timeout_seconds = 600 }
      "c5.2xlarge" = { vcpus = 2, memory_mib = 4096 }
    }

    own_jobs = {
      thumbnails = {
        images     = { cpu = "111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:1.4-cpu", cuda = "111122223333.dkr.ecr.us-east-1.amazonaws.com/thumbnails:1.4" }
        command    = ["python", "convert.py", "--size", "Ref::size", "--format", "Ref::format"]
        parameters = { format = "png" }
        secrets    = { TOKEN = "arn:aws:ssm:us-east-1:111122223333:parameter/thumbnails/token" }
        axis       = { parameter = "size", sizes = [64, 128, 0.5] }
        check      = "python check.py"
        output     = "out.tar"
        attempts   = 2
      }
      sum = {
        image         = "nobody/sum:3"
        command       = ["sum"]
        output        = "sum.bin"
        output_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        targets       = ["g5.xlarge"]
      }
      quiet = {
        image           = "nobody/quiet:3"
        shell           = false
        timeout_seconds = 60
        targets         = ["c5.2xlarge"]
        schedule        = "*/30 1-5,23 1 JAN-mar,12 sun"
        commit          = "3f2a91c"
        branch          = "main"
        label           = "the new decoder"
      }
    }
  }

  assert {
    condition     = aws_ssm_parameter.airflow.name == "/airflow/variables/batchmark" && aws_ssm_parameter.airflow.type == "String"
    error_message = "Airflow's secrets backend looks for /airflow/variables/batchmark"
  }

  assert {
    condition = jsondecode(aws_ssm_parameter.airflow.value) == {
      schema_version   = 1
      name             = "batchmark"
      region           = "us-east-1"
      bucket           = "results"
      topic_arn        = "arn:aws:sns:us-east-1:111122223333:batchmark-alerts"
      log_group        = "/aws/batch/batchmark"
      events_log_group = "/aws/events/batch/batchmark"
      targets = {
        "c5.2xlarge" = {
          device          = "cpu"
          instance_type   = "c5.2xlarge"
          vcpus           = 2
          memory_mib      = 4096
          gpus            = 0
          job_queue       = "arn:aws:batch:us-east-1:111122223333:job-queue/mock"
          job_definition  = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
          on_demand_queue = "arn:aws:batch:us-east-1:111122223333:job-queue/mock"
          compute_environments = {
            on_demand = "mock"
            spot      = "mock"
          }
          timeout_seconds    = 3600
          attempts           = 3
          allow_cpu_fallback = false
        }
        "g5.xlarge" = {
          device          = "cuda"
          instance_type   = "g5.xlarge"
          vcpus           = 8
          memory_mib      = 14336
          gpus            = 1
          job_queue       = "arn:aws:batch:us-east-1:111122223333:job-queue/mock"
          job_definition  = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
          on_demand_queue = "arn:aws:batch:us-east-1:111122223333:job-queue/mock"
          compute_environments = {
            on_demand = "mock"
            spot      = "mock"
          }
          timeout_seconds    = 600
          attempts           = 5
          allow_cpu_fallback = true
        }
      }
    }
    error_message = "the parameter's shape is a contract with plugins/batchmark/config.py: a change needs a new schema_version there"
  }

  # As plugins/batchmark/core/own_jobs.py reads it.
  assert {
    condition     = aws_ssm_parameter.own_jobs[0].name == "/airflow/variables/batchmark_own_jobs"
    error_message = "Airflow's secrets backend looks for /airflow/variables/batchmark_own_jobs"
  }

  assert {
    condition = jsondecode(aws_ssm_parameter.own_jobs[0].value) == {
      schema_version = 1
      name           = "batchmark"
      region         = "us-east-1"
      jobs = {
        thumbnails = {
          command    = ["python", "convert.py", "--size", "Ref::size", "--format", "Ref::format"]
          parameters = { format = "png" }
          axis       = { parameter = "size", sizes = [64, 128, 0.5] }
          check      = "python check.py"
          output     = "out.tar"
          job_definitions = {
            "c5.2xlarge" = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
            "g5.xlarge"  = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
          }
          timeout_seconds = 3600
          attempts        = 2
        }
        sum = {
          command         = ["sum"]
          output          = "sum.bin"
          output_sha256   = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
          job_definitions = { "g5.xlarge" = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1" }
          timeout_seconds = 3600
          attempts        = 3
        }
        quiet = {
          command         = []
          shell           = false
          job_definitions = { "c5.2xlarge" = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1" }
          timeout_seconds = 60
          attempts        = 3
          schedule        = "*/30 1-5,23 1 JAN-mar,12 sun"
          commit          = "3f2a91c"
          branch          = "main"
          label           = "the new decoder"
        }
      }
    }
    error_message = "the parameter's shape is a contract with plugins/batchmark/core/own_jobs.py: a change needs a new schema_version there"
  }

  assert {
    condition     = setsubtract(module.analytics.suites, var.suites) == toset(["imported", "job-quiet", "job-sum", "job-thumbnails"])
    error_message = "Athena finds the history of your own jobs"
  }

  assert {
    condition     = output.own_jobs["quiet"].timeout_seconds == 60
    error_message = "what Airflow is told can be looked at"
  }
}

run "own_jobs_run_on_the_local_clouds_targets" {
  command = plan

  variables {
    local_cloud        = true
    gpu_instance_types = ["g5.xlarge"]
    cpu_instance_types = ["c5.2xlarge"]

    own_jobs = {
      sum = { image = "nobody/sum:3", command = ["sum"], targets = ["c7i.2xlarge"] }
    }
  }

  assert {
    condition     = keys(output.own_jobs["sum"].job_definitions) == ["c5.2xlarge", "g5.xlarge"]
    error_message = "a file for AWS can be tried on a laptop"
  }
}

run "refuses_more_own_jobs_than_a_parameter_holds" {
  command = plan

  variables {
    own_jobs = {
      long = { image = "nobody/long:1", command = ["sh", "-c", join("", [for number in range(1000) : "echo long;"])] }
    }
  }

  expect_failures = [aws_ssm_parameter.own_jobs]
}

run "other_choices_beside_each_other" {
  command = plan

  variables {
    name                     = "team-b"
    airflow_variables_prefix = "/team-b/variables"

    image_tag     = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    cpu_image_tag = "0.2.0-cpu"

    monthly_cap_usd = 250.5

    comparison_access = {
      job_queue_arns      = ["arn:aws:batch:us-east-1:111122223333:job-queue/theirs"]
      job_definition_arns = ["arn:aws:batch:us-east-1:111122223333:job-definition/theirs"]
    }
  }

  assert {
    condition     = aws_ssm_parameter.airflow.name == "/team-b/variables/batchmark" && output.log_group_name == "/aws/batch/team-b"
    error_message = "two installations in one account must not meet"
  }

  assert {
    condition     = output.image == "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
    error_message = "a digest is joined with @"
  }

  assert {
    condition     = output.cpu_image == "111122223333.dkr.ecr.us-east-1.amazonaws.com/batchmark-job:0.2.0-cpu" && endswith(output.image, "@${var.image_tag}")
    error_message = "each variant has its own tag or digest"
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).monthly_cap_usd == 250.5
    error_message = "Airflow reads the cap as a number"
  }

  assert {
    condition     = local.comparison_access.log_group_names == ["/aws/batch/job"] && keys(output.airflow_policy_arns) == ["run", "watch"]
    error_message = "Batch's own log group is the default, and no further policy has to be attached"
  }

  assert {
    condition     = jsondecode(aws_ssm_parameter.airflow.value).comparison_definitions == ["arn:aws:batch:us-east-1:111122223333:job-definition/theirs"]
    error_message = "Airflow is told what may be compared"
  }
}

run "every_option" {
  command = plan

  variables {
    create_kms_key             = true
    enable_interface_endpoints = true
    flow_log_retention_days    = 30
    monthly_budget_usd         = null
    idle_alarm_minutes         = null
    launches_per_hour_alarm    = null
    force_destroy              = true
    purchasing                 = "on_demand"
    airflow_principal_arns     = ["arn:aws:iam::111122223333:role/airflow-host"]
  }

  override_data {
    target = data.aws_iam_roles.service_linked
    values = { names = ["AWSServiceRoleForAutoScaling", "AWSServiceRoleForBatch", "AWSServiceRoleForECS"] }
  }

  assert {
    condition     = length(module.encryption) == 1 && local.kms_key_arn == "arn:aws:kms:us-east-1:111122223333:key/mock"
    error_message = "the key goes to every module through local.kms_key_arn"
  }

  assert {
    condition     = length(module.budget) == 0 && length(module.monitoring.alarm_names) == 0 && length(module.monitoring.launch_alarm_names) == 0
    error_message = "null leaves the budget and the alarms out"
  }

  assert {
    condition     = alltrue([for target in module.batch.targets : target.compute_environments.spot == null])
    error_message = "purchasing reaches every target"
  }

  assert {
    condition     = output.airflow_role_arn != null && strcontains(output.destroy_note, "for good")
    error_message = "the role is there for its principals, and the destroy note says what force_destroy does"
  }

  assert {
    condition     = !contains(values(local.service_linked_roles), "AWSServiceRoleForEC2Spot")
    error_message = "On-Demand alone works without Spot's role"
  }
}

run "shared_targets_reach_airflow" {
  command = plan

  variables {
    gpu_instance_types = []
    cpu_instance_types = ["c5.2xlarge"]
    purchasing         = "on_demand"
    shared_targets     = { "g5.8xlarge-shared" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 8 } }
    target_overrides   = { "g5.8xlarge-shared" = { allow_cpu_fallback = true } }
  }

  assert {
    condition = { for field, value in jsondecode(aws_ssm_parameter.airflow.value).targets["g5.8xlarge-shared"] : field => value if contains(["device", "instance_type", "vcpus", "gpus", "allow_cpu_fallback", "sharing", "max_replicas"], field) } == {
      device             = "cuda"
      instance_type      = "g5.8xlarge"
      vcpus              = 1
      gpus               = 0
      allow_cpu_fallback = true
      sharing            = "time_slicing"
      max_replicas       = 8
    }
    error_message = "Airflow learns how a target is shared, and by how many"
  }

  assert {
    condition     = !can(jsondecode(aws_ssm_parameter.airflow.value).targets["c5.2xlarge"].sharing)
    error_message = "an Airflow of an earlier release can still read the other targets"
  }

  assert {
    condition     = keys(output.submit_gpu_job_command) == ["g5.8xlarge-shared"] && keys(output.submit_cpu_job_command) == ["c5.2xlarge"]
    error_message = "one of its jobs can be run by hand"
  }

  assert {
    condition     = contains(local.instance_types, "g5.8xlarge") && length(module.monitoring.alarm_names) == 2
    error_message = "zones are chosen for its instance type, and its environment is watched"
  }
}

run "refuses_a_monthly_cap_of_nothing" {
  command = plan

  variables {
    monthly_cap_usd = 0
  }

  expect_failures = [var.monthly_cap_usd]
}

run "refuses_a_bad_name" {
  command = plan

  variables {
    name = "Batch_Mark"
  }

  expect_failures = [var.name]
}

run "refuses_tags_that_are_awss_own" {
  command = plan

  variables {
    tags = { "aws:owner" = "me" }
  }

  expect_failures = [var.tags]
}

run "refuses_a_misspelt_field_of_comparison_access" {
  command = plan

  variables {
    comparison_access = {
      job_queue_arns      = ["arn:aws:batch:us-east-1:111122223333:job-queue/theirs"]
      job_definition_arns = ["arn:aws:batch:us-east-1:111122223333:job-definition/theirs"]
      log_group_name      = ["/aws/batch/theirs"]
    }
  }

  expect_failures = [var.comparison_access]
}

run "refuses_a_zone_for_a_region" {
  command = plan

  variables {
    region = "us-east-1a"
  }

  expect_failures = [var.region]
}

run "refuses_a_prefix_that_ends_with_a_slash" {
  command = plan

  variables {
    airflow_variables_prefix = "/airflow/variables/"
  }

  expect_failures = [var.airflow_variables_prefix]
}

run "refuses_a_bad_image_tag" {
  command = plan

  variables {
    image_tag = "registry/image:1"
  }

  expect_failures = [var.image_tag]
}

run "refuses_a_bad_cpu_image_tag" {
  command = plan

  variables {
    cpu_image_tag = "registry/image:1"
  }

  expect_failures = [var.cpu_image_tag]
}

################################################################################
# A network and guardrails of the account's own
################################################################################

run "existing_network" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge"]
    cpu_instance_types = ["c5.2xlarge"]

    existing_network = {
      vpc_id             = "vpc-0123456789abcdef0"
      subnet_ids         = ["subnet-0123456789abcdef0"]
      security_group_ids = ["sg-0123456789abcdef0"]
    }
  }

  assert {
    condition     = length(module.network) == 0 && local.subnet_ids == [data.aws_subnet.existing["subnet-0123456789abcdef0"].id] && local.security_group_ids == [data.aws_security_group.existing["sg-0123456789abcdef0"].id]
    error_message = "no network is made beside the existing one"
  }
}

run "refuses_a_subnet_of_another_vpc" {
  command = plan

  variables {
    existing_network = {
      vpc_id             = "vpc-0000000000000000f"
      subnet_ids         = ["subnet-0123456789abcdef0"]
      security_group_ids = ["sg-0123456789abcdef0"]
    }
  }

  expect_failures = [data.aws_subnet.existing, data.aws_security_group.existing]
}

run "refuses_subnets_where_a_type_is_not_offered" {
  command = plan

  variables {
    gpu_instance_types = ["g5.xlarge"]
    cpu_instance_types = ["c5.2xlarge"]

    existing_network = {
      vpc_id             = "vpc-0123456789abcdef0"
      subnet_ids         = ["subnet-0123456789abcdef0"]
      security_group_ids = ["sg-0123456789abcdef0"]
    }
  }

  override_data {
    target = data.aws_ec2_instance_type_offerings.existing["g5.xlarge"]
    values = { locations = ["us-east-1a"] }
  }

  expect_failures = [data.aws_ec2_instance_type_offerings.existing["g5.xlarge"]]
}

run "refuses_a_network_without_subnets" {
  command = plan

  variables {
    existing_network = {
      vpc_id             = "vpc-0123456789abcdef0"
      subnet_ids         = []
      security_group_ids = ["sg-0123456789abcdef0"]
    }
  }

  expect_failures = [var.existing_network]
}

run "refuses_a_nat_gateway_in_an_existing_network" {
  command = plan

  variables {
    enable_nat_gateway = true

    existing_network = {
      vpc_id             = "vpc-0123456789abcdef0"
      subnet_ids         = ["subnet-0123456789abcdef0"]
      security_group_ids = ["sg-0123456789abcdef0"]
    }
  }

  expect_failures = [var.existing_network]
}

run "refuses_odd_guardrails" {
  command = plan

  variables {
    iam_path                 = "research"
    permissions_boundary_arn = "boundary"
    instance_policy_arns     = ["AmazonSSMManagedInstanceCore"]
  }

  expect_failures = [var.iam_path, var.permissions_boundary_arn, var.instance_policy_arns]
}

run "warns_of_an_account_without_spots_role" {
  command = plan

  override_data {
    target = data.aws_iam_roles.service_linked
    values = { names = ["AWSServiceRoleForAutoScaling", "AWSServiceRoleForBatch", "AWSServiceRoleForECS"] }
  }

  expect_failures = [check.service_linked_roles]
}

# The provider refuses names that are too long for AWS.
run "longest_names" {
  command = plan

  variables {
    name                       = "longest-installation"
    region                     = "ap-southeast-1"
    gpu_instance_types         = ["p6-b300.48xlarge"]
    cpu_instance_types         = ["c5.2xlarge"]
    airflow_principal_arns     = ["arn:aws:iam::111122223333:role/airflow"]
    create_kms_key             = true
    flow_log_retention_days    = 30
    enable_interface_endpoints = true
    own_jobs = {
      a-name-of-two-and-thirty-letters = { image = "nobody/sum:3", command = ["true"] }
    }

    shared_targets = {
      "g5.8xlarge-shared-among-so-many-that-one" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 8 }
      "g5.8xlarge-shared-among-so-many-that-two" = { instance_type = "g5.8xlarge", mode = "time_slicing", max_replicas = 8 }
    }
  }

  assert {
    condition     = length(distinct(values(module.monitoring.launch_alarm_names))) == 6 && max([for name in values(module.monitoring.launch_alarm_names) : length(name)]...) == 64
    error_message = "rules of long names are told apart"
  }
}
