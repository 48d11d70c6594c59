################################################################################
# Targets: what each instance type is asked to be
################################################################################

locals {
  instance_types = setunion(var.gpu_instance_types, var.cpu_instance_types)

  # By default a job takes the whole instance, so that nothing else disturbs what it measures.
  targets = {
    for type in local.instance_types : type => merge(
      {
        cloud_name = replace(type, ".", "-")
        device     = contains(var.gpu_instance_types, type) ? "cuda" : "cpu"

        vcpus = data.aws_ec2_instance_type.this[type].default_vcpus
        # Kernel, Docker and the ECS agent need the rest: a job that asks for all of it never starts.
        memory_mib        = floor(data.aws_ec2_instance_type.this[type].memory_size * 7 / 8)
        gpus              = contains(var.gpu_instance_types, type) ? local.gpus_present[type] : 0
        shared_memory_mib = 1024

        max_vcpus          = var.max_vcpus
        timeout_seconds    = 3600
        attempts           = 3
        allow_cpu_fallback = false
      },
      { for setting, value in try(var.target_overrides[type], {}) : setting => value if value != null },
    )
  }

  gpus_present = { for type, facts in data.aws_ec2_instance_type.this : type => sum(concat([0], [for gpu in facts.gpus : gpu.count])) }

  # The most that ECS is left with on an instance, a little above what the default asks for.
  usable_memory_mib = { for type, facts in data.aws_ec2_instance_type.this : type => floor(facts.memory_size * 15 / 16) }
}

data "aws_ec2_instance_type" "this" {
  for_each = local.instance_types

  instance_type = each.value

  lifecycle {
    postcondition {
      condition     = contains(self.supported_architectures, "x86_64")
      error_message = "${each.value} is an Arm machine, and the job image is built for x86_64. Use an Intel or AMD type instead, such as a c6i for a c6g."
    }

    postcondition {
      condition     = !contains(var.gpu_instance_types, each.value) || anytrue([for gpu in self.gpus : gpu.manufacturer == "NVIDIA"])
      error_message = "${each.value} has no NVIDIA GPU. Move it to cpu_instance_types, or use a type that has one, such as g5.xlarge."
    }
  }
}
