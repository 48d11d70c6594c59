################################################################################
# Targets: what an instance of each is asked to be
################################################################################

locals {
  gpu_types = toset([for name in local.gpu_targets : local.instance_types[name]])

  # One of a target's instances.
  instances = {
    for name, type in local.instance_types : name => {
      type       = type
      vcpus      = data.aws_ec2_instance_type.this[type].default_vcpus
      memory_mib = data.aws_ec2_instance_type.this[type].memory_size
      gpus       = sum(concat([0], [for gpu in data.aws_ec2_instance_type.this[type].gpus : gpu.count]))

      # 0 where every AMI has one that will do.
      least_driver = try(local.families.gpu_families[split(".", type)[0]].least_driver, 0)

      # The most that ECS is left with, a little above what the default asks for.
      usable_memory_mib = floor(data.aws_ec2_instance_type.this[type].memory_size * 15 / 16)

      # How many jobs share it, and with it its GPU.
      replicas = try(var.shared_targets[name].max_replicas, 1)
    }
  }

  # Part of the job's memory. Results go straight to S3: only caches and small files lie there.
  tmp_mib = 512

  image_types = { cuda = "ECS_AL2023_NVIDIA", cpu = "ECS_AL2023" }

  # By default a job takes the whole instance, so that nothing else disturbs what it measures, or its
  # share of one.
  requests = {
    for name, instance in local.instances : name => merge(
      {
        cloud_name = replace(name, ".", "-")
        device     = contains(local.gpu_targets, name) ? "cuda" : "cpu"
        sharing    = try(var.shared_targets[name].mode, null)

        vcpus = floor(instance.vcpus / instance.replicas)
        # Kernel, Docker and the ECS agent need the rest: a job that asks for all of it never starts.
        memory_mib = floor(instance.memory_mib * 7 / 8 / instance.replicas)
        # Batch assigns whole GPUs, so jobs that share one ask for none.
        gpus = contains(var.gpu_instance_types, name) ? instance.gpus : 0

        # Replicas meet on one instance: there is one at most, and a reclaim would take all of them.
        purchasing          = contains(keys(var.shared_targets), name) ? "on_demand" : var.purchasing
        spot_bid_percentage = null
        max_vcpus           = contains(keys(var.shared_targets), name) ? instance.vcpus : var.max_vcpus
        spot_max_vcpus      = null

        image_type      = local.image_types[contains(local.gpu_targets, name) ? "cuda" : "cpu"]
        image_id        = null
        volume_size_gib = var.volume_size_gib

        capacity_reservation = null
        capacity_block       = null

        timeout_seconds          = 3600
        attempts                 = 3
        allow_cpu_fallback       = false
        instance_store_scratch   = false
        map_nvidia_device        = false
        readonly_root_filesystem = true
      },
      { for setting, value in try(var.target_overrides[name], {}) : setting => value if value != null },
    )
  }

  # Processes that share a GPU job's data do it in shared memory, more of them with more GPUs: 8 GiB
  # for one, 4 for each of several, at most half of the job's memory.
  targets = {
    for name, request in local.requests : name => merge(
      {
        shared_memory_mib = request.device == "cpu" ? 1024 : min(max(8192, 4096 * request.gpus), floor(request.memory_mib / 2))
      },
      request,
    )
  }
}

data "aws_ec2_instance_type" "this" {
  for_each = toset(values(local.instance_types))

  instance_type = each.value

  lifecycle {
    postcondition {
      condition     = contains(self.supported_architectures, "x86_64")
      error_message = "${each.value} is an Arm machine, and the job image is built for x86_64. Use an Intel or AMD type instead, such as a c6i for a c6g."
    }

    postcondition {
      condition     = !contains(local.gpu_types, each.value) || anytrue([for gpu in self.gpus : gpu.manufacturer == "NVIDIA"])
      error_message = "${each.value} has no NVIDIA GPU. Move it to cpu_instance_types, or use a type that has one, such as g5.xlarge."
    }
  }
}
