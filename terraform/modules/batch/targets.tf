################################################################################
# Targets: what each instance type is asked to be
################################################################################

locals {
  instance_types = setunion(var.gpu_instance_types, var.cpu_instance_types)

  # Part of the job's memory. Results go straight to S3: only caches and small files lie there.
  tmp_mib = 512

  image_types = { cuda = "ECS_AL2023_NVIDIA", cpu = "ECS_AL2023" }

  # By default a job takes the whole instance, so that nothing else disturbs what it measures.
  requests = {
    for type in local.instance_types : type => merge(
      {
        cloud_name = replace(type, ".", "-")
        device     = contains(var.gpu_instance_types, type) ? "cuda" : "cpu"

        vcpus = data.aws_ec2_instance_type.this[type].default_vcpus
        # Kernel, Docker and the ECS agent need the rest: a job that asks for all of it never starts.
        memory_mib = floor(data.aws_ec2_instance_type.this[type].memory_size * 7 / 8)
        gpus       = contains(var.gpu_instance_types, type) ? local.gpus_present[type] : 0

        purchasing          = var.purchasing
        spot_bid_percentage = null
        max_vcpus           = var.max_vcpus
        spot_max_vcpus      = null

        image_type      = local.image_types[contains(var.gpu_instance_types, type) ? "cuda" : "cpu"]
        image_id        = null
        volume_size_gib = var.volume_size_gib

        capacity_reservation = null

        timeout_seconds          = 3600
        attempts                 = 3
        allow_cpu_fallback       = false
        instance_store_scratch   = false
        map_nvidia_device        = false
        readonly_root_filesystem = true
      },
      { for setting, value in try(var.target_overrides[type], {}) : setting => value if value != null },
    )
  }

  # Processes that share a GPU job's data do it in shared memory, more of them with more GPUs: 8 GiB
  # for one, 4 for each of several, at most half of the job's memory.
  targets = {
    for type, request in local.requests : type => merge(
      {
        shared_memory_mib = request.device == "cpu" ? 1024 : min(max(8192, 4096 * request.gpus), floor(request.memory_mib / 2))
      },
      request,
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
