################################################################################
# Placement group
################################################################################

resource "aws_placement_group" "this" {
  count = var.placement_group ? 1 : 0

  name     = local.prefix
  strategy = "cluster"
}

################################################################################
# Launch template
################################################################################

resource "aws_launch_template" "this" {
  name_prefix            = "${local.prefix}-"
  description            = "${local.prefix} nodes"
  update_default_version = true

  # Batch takes user data in MIME multipart only: it adds a part of its own.
  user_data = base64encode(templatefile("${path.module}/../../modules/batch/templates/user_data.mime.tftpl", {
    scripts = [
      templatefile("${path.module}/../../modules/batch/templates/configure_host.sh.tftpl", {
        gpus    = local.node.gpus
        scratch = data.aws_ec2_instance_type.this.instance_storage_supported
        sharing = ""
      }),
      templatefile("${path.module}/mount_file_system.sh.tftpl", {
        region       = var.region
        id_parameter = aws_ssm_parameter.file_system.name
        mount_point  = local.mount_point
        scratch      = local.scratch
      }),
    ]
  }))

  # Two hops, because a container is one hop further from the metadata service than its host.
  metadata_options {
    http_endpoint               = "enabled"
    http_tokens                 = "required"
    http_put_response_hop_limit = 2
  }

  block_device_mappings {
    device_name = "/dev/xvda"

    ebs {
      volume_type           = "gp3"
      volume_size           = var.volume_size_gib
      throughput            = local.volume_throughput_mib_s
      iops                  = local.volume_iops
      encrypted             = true
      kms_key_id            = var.kms_key_arn
      delete_on_termination = true
    }
  }

  dynamic "tag_specifications" {
    for_each = toset(["instance", "volume"])

    content {
      resource_type = tag_specifications.value
      tags          = merge(local.tags, { Name = local.prefix, Target = local.target })
    }
  }

  lifecycle {
    create_before_destroy = true

    precondition {
      condition     = local.device == "cpu" || var.ami_id != null || local.node.least_driver <= local.families.ecs_gpu_ami_driver
      error_message = "${var.instance_type} needs NVIDIA driver ${local.node.least_driver} or newer, and the ECS GPU AMI has ${local.families.ecs_gpu_ami_driver}: nodes would fail their check and be replaced again and again. Use another type, such as g6e.12xlarge or g7e.12xlarge, or name an AMI of yours that has the driver in ami_id."
    }
  }
}

################################################################################
# Machine image
################################################################################

locals {
  image_type = local.device == "cuda" ? "ECS_AL2023_NVIDIA" : "ECS_AL2023"
}

data "aws_ssm_parameter" "newest_ami" {
  name = "/aws/service/ecs/optimized-ami/amazon-linux-2023/${local.device == "cuda" ? "gpu/" : ""}recommended/image_id"
}

# As in the core stack: the newest of the first apply stays until another is asked for.
resource "terraform_data" "ami" {
  input            = nonsensitive(data.aws_ssm_parameter.newest_ami.value)
  triggers_replace = [var.ami_release, local.image_type]

  lifecycle {
    ignore_changes = [input]
  }
}

locals {
  ami = coalesce(var.ami_id, terraform_data.ami.output)
}
