################################################################################
# Launch template
################################################################################

resource "aws_launch_template" "this" {
  for_each = local.targets

  name_prefix            = "${var.name}-${each.value.cloud_name}-"
  description            = "${var.name} instances of ${each.key}"
  update_default_version = true

  # No shutdown behaviour: Batch's list of template parameters doesn't name it, and the Auto
  # Scaling group ends stopped instances anyway.

  # Batch takes user data in MIME multipart only: it adds a part of its own.
  user_data = base64encode(templatefile("${path.module}/templates/user_data.mime.tftpl", {
    # Ours last: it has to see what the other one changed.
    scripts = compact([
      var.extra_user_data,
      templatefile("${path.module}/templates/configure_host.sh.tftpl", {
        gpus    = each.value.device == "cuda" ? local.instances[each.key].gpus : 0
        scratch = each.value.instance_store_scratch
        sharing = each.value.sharing == null ? "" : each.value.sharing
      }),
    ])
  }))

  # Two hops, because a container is one hop further from the metadata service than its host.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  # Full or missing, it lets a launch fail: what was paid for is never passed over for other capacity.
  dynamic "capacity_reservation_specification" {
    for_each = compact([each.value.capacity_reservation, each.value.capacity_block])

    content {
      capacity_reservation_target {
        capacity_reservation_id                 = startswith(capacity_reservation_specification.value, "cr-") ? capacity_reservation_specification.value : null
        capacity_reservation_resource_group_arn = startswith(capacity_reservation_specification.value, "arn:") ? capacity_reservation_specification.value : null
      }
    }
  }

  # Batch takes Capacity Blocks in a launch template alone (AWS HPC Blog, "How to use Capacity Blocks for
  # ML with AWS Batch"), though its user guide lists market options among what it ignores there ("Launch
  # template support"): open until one is tried. No data source tells a block's id from another
  # reservation's, nor its zone.
  dynamic "instance_market_options" {
    for_each = each.value.capacity_block[*]

    content {
      market_type = "capacity-block"
    }
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = each.value.volume_size_gib
      throughput            = var.volume_throughput_mib_s
      iops                  = var.volume_iops
      encrypted             = true
      kms_key_id            = var.kms_key_arn
      delete_on_termination = true
    }
  }

  # Tags of instances stand here, because in the compute environment they would replace it when edited.
  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])

    content {
      resource_type = tag_specifications.value
      tags          = merge(var.tags, { Name = "${var.name}-${each.value.cloud_name}", Target = each.key })
    }
  }

  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = !each.value.instance_store_scratch || data.aws_ec2_instance_type.this[local.instances[each.key].type].instance_storage_supported
      error_message = "instance_store_scratch is set for ${each.key}, which has no disks of its own. Leave it out, or use a type that has them, such as a c5d for a c5."
    }

    precondition {
      condition     = each.value.device == "cpu" || each.value.image_id != null || local.instances[each.key].least_driver <= local.families.ecs_gpu_ami_driver
      error_message = "${local.instances[each.key].type} needs NVIDIA driver ${local.instances[each.key].least_driver} or newer, and the ECS GPU AMI has ${local.families.ecs_gpu_ami_driver}: hosts would fail their check and be replaced again and again. Use another type, such as g6e or g7e, or name an AMI of yours that has the driver in image_id of target_overrides[\"${each.key}\"]."
    }
  }
}

################################################################################
# Machine images
################################################################################

data "aws_ssm_parameter" "newest_ami" {
  for_each = { ECS_AL2023 = "", ECS_AL2023_NVIDIA = "gpu/" }

  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/${each.value}recommended/image_id"
}

# A new image may bring another driver, other GPU clocks and daemons, and a benchmark would take that
# for a change of what it measures. So the newest of the first apply stays until it is asked for.
resource "terraform_data" "ami" {
  for_each = data.aws_ssm_parameter.newest_ami

  input            = nonsensitive(each.value.value)
  triggers_replace = var.ami_release

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  amis = { for name, target in local.targets : name => target.image_id == null ? terraform_data.ami[target.image_type].output : target.image_id }
}
