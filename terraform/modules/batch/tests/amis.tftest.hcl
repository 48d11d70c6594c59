mock_provider "aws" {
  source = "./tests/mocks"
}

# Applied one after the other, to the same state.
run "the_newest_amis_of_the_first_apply" {
  override_data {
    target = data.aws_ssm_parameter.newest_ami["ECS_AL2023_NVIDIA"]
    values = { value = "ami-00000000000000002" }
  }

  assert {
    condition     = output.ami_ids == { "c5.2xlarge" = "ami-00000000000000001", "g5.xlarge" = "ami-00000000000000002" }
    error_message = "each kind of target has the image that AWS recommends for it"
  }

  assert {
    condition = {
      for key, environment in aws_batch_compute_environment.this : key => environment.compute_resources[0].ec2_configuration[0].image_id_override
      } == {
      "c5.2xlarge/on_demand" = "ami-00000000000000001"
      "c5.2xlarge/spot"      = "ami-00000000000000001"
      "g5.xlarge/on_demand"  = "ami-00000000000000002"
      "g5.xlarge/spot"       = "ami-00000000000000002"
    }
    error_message = "Spot and On-Demand hosts boot the same image"
  }
}

run "a_newer_ami_of_aws_changes_nothing" {
  override_data {
    target = data.aws_ssm_parameter.newest_ami["ECS_AL2023_NVIDIA"]
    values = { value = "ami-00000000000000003" }
  }

  assert {
    condition     = output.ami_ids["g5.xlarge"] == "ami-00000000000000002" && aws_batch_compute_environment.this["g5.xlarge/spot"].compute_resources[0].ec2_configuration[0].image_id_override == "ami-00000000000000002"
    error_message = "the image stays"
  }
}

run "until_it_is_asked_for" {
  variables {
    ami_release = "2026-12"
  }

  override_data {
    target = data.aws_ssm_parameter.newest_ami["ECS_AL2023_NVIDIA"]
    values = { value = "ami-00000000000000003" }
  }

  assert {
    condition     = output.ami_ids["g5.xlarge"] == "ami-00000000000000003" && aws_batch_compute_environment.this["g5.xlarge/spot"].compute_resources[0].ec2_configuration[0].image_id_override == "ami-00000000000000003"
    error_message = "ami_release brings the newest"
  }
}
