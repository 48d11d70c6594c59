mock_provider "aws" {
  source          = "./tests/mocks"
  override_during = plan
}

override_resource {
  target          = aws_iam_role.none
  values          = { arn = "arn:aws:iam::111122223333:role/none" }
  override_during = plan
}

run "a_definition_for_each_target_that_has_its_instances_to_itself" {
  command = plan

  assert {
    condition     = { for key, definition in aws_batch_job_definition.this : key => definition.name } == { "thumbnails/c5.2xlarge" = "test_job_thumbnails_c5-2xlarge", "thumbnails/g5.xlarge" = "test_job_thumbnails_g5-xlarge" }
    error_message = "a job runs on all targets but the shared ones, below a name that no installation has"
  }

  assert {
    condition = jsondecode(aws_batch_job_definition.this["thumbnails/g5.xlarge"].container_properties) == {
      image   = "111122223333.dkr.ecr.us-east-1.amazonaws.com/pictures/thumbnails:1.4"
      command = ["python", "convert.py", "--size", "Ref::size"]
      resourceRequirements = [
        { type = "VCPU", value = "4" },
        { type = "MEMORY", value = "14336" },
        { type = "GPU", value = "1" },
      ]
      environment            = []
      secrets                = []
      jobRoleArn             = "arn:aws:iam::111122223333:role/none"
      executionRoleArn       = "arn:aws:iam::111122223333:role/mock"
      privileged             = false
      readonlyRootFilesystem = false
      linuxParameters        = { initProcessEnabled = true, sharedMemorySize = 7168, tmpfs = [] }
      volumes                = []
      mountPoints            = []
      logConfiguration = {
        logDriver = "awslogs"
        options   = { awslogs-group = "/aws/batch/test", awslogs-region = "us-east-1", awslogs-stream-prefix = "g5.xlarge", mode = "blocking" }
      }
    }
    error_message = "a job takes all that its target gives, keeps its image's user and writes where it wants to, and has a role without any right"
  }

  assert {
    condition     = [for need in jsondecode(aws_batch_job_definition.this["thumbnails/c5.2xlarge"].container_properties).resourceRequirements : need.type] == ["VCPU", "MEMORY"]
    error_message = "on a CPU target it asks for no GPU"
  }

  assert {
    condition     = aws_batch_job_definition.this["thumbnails/g5.xlarge"].parameters == tomap({ size = "64" }) && aws_batch_job_definition.this["thumbnails/g5.xlarge"].propagate_tags && aws_batch_job_definition.this["thumbnails/g5.xlarge"].timeout[0].attempt_duration_seconds == 3600
    error_message = "it can be submitted as it is, with tags and a timeout"
  }

  assert {
    condition     = jsonencode([for rule in aws_batch_job_definition.this["thumbnails/g5.xlarge"].retry_strategy[0].evaluate_on_exit : [upper(rule.action), rule.on_status_reason, rule.on_reason]]) == jsonencode([["RETRY", "Host EC2*", null], ["EXIT", null, "*"]]) && aws_batch_job_definition.this["thumbnails/g5.xlarge"].retry_strategy[0].attempts == 3
    error_message = "what ends it is looked at as for our own jobs"
  }

  assert {
    condition = jsondecode(jsonencode(output.jobs)) == {
      thumbnails = {
        command = ["python", "convert.py", "--size", "Ref::size"]
        job_definitions = {
          "c5.2xlarge" = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
          "g5.xlarge"  = "arn:aws:batch:us-east-1:111122223333:job-definition/mock:1"
        }
        timeout_seconds = 3600
        attempts        = 3
        axis            = { parameter = "size", sizes = [64, 128] }
      }
    }
    error_message = "Airflow is told what is set, and nothing else"
  }

  assert {
    condition     = strcontains(jsonencode(output.jobs), "\"sizes\":[64,128]")
    error_message = "whole numbers stay whole"
  }

  assert {
    condition     = output.job_definition_arns == "arn:aws:batch:us-east-1:111122223333:job-definition/test_job_*" && output.suites == ["job-thumbnails"] && output.role_arns == ["arn:aws:iam::111122223333:role/mock", "arn:aws:iam::111122223333:role/none"]
    error_message = "the rest of the stack learns of definitions, roles and suites"
  }

  assert {
    condition     = length(data.aws_iam_policy_document.execution.statement) == 0 && data.aws_iam_policy_document.execution.source_policy_documents == tolist([var.pull_and_log_policy]) && aws_iam_role.execution.assume_role_policy == var.task_trust_policy && aws_iam_role.execution.name_prefix == "test-own-jobs-"
    error_message = "without secrets the execution role pulls and logs, and nothing else"
  }
}

run "all_that_can_be_set" {
  command = plan

  variables {
    iam_path                 = "/research/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"

    own_jobs = {
      training = {
        images                   = { cpu = "111122223333.dkr.ecr.us-east-1.amazonaws.com/train@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef", cuda = "registry.example.org/train:cuda" }
        command                  = ["./train", "--rate=Ref::rate", "--epochs", "Ref::epochs"]
        parameters               = { epochs = "3" }
        vcpus                    = 2
        memory_mib               = 1024
        gpus                     = 1
        environment              = { MODE = "fast" }
        secrets                  = { TOKEN = "arn:aws:secretsmanager:us-east-1:111122223333:secret:team/token-AbCdEf:key::", USER = "arn:aws:secretsmanager:us-east-1:111122223333:secret:team/token-AbCdEf:user::", PLACE = "arn:aws:ssm:us-east-1:111122223333:parameter/team/place" }
        secrets_kms_key_arns     = ["arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"]
        mounts                   = [{ source = "/scratch", path = "/data", read_only = false }, { source = "/mnt/models", path = "/models" }]
        timeout_seconds          = 600
        attempts                 = 1
        axis                     = { parameter = "rate", sizes = [0.5, 2] }
        check                    = "test -s out.json"
        output                   = "out.json"
        user                     = "1000"
        job_role_arn             = "arn:aws:iam::111122223333:role/training"
        readonly_root_filesystem = true
        targets                  = ["g5.xlarge", "c5.2xlarge"]
      }
      quiet = {
        image   = "nobody/quiet:3"
        shell   = false
        targets = ["c5.2xlarge"]
      }
      summed = {
        image         = "nobody/summed"
        command       = ["sum"]
        output        = "/out/all"
        output_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
        targets       = ["g5.xlarge"]
      }
    }
  }

  assert {
    condition     = keys(aws_batch_job_definition.this) == ["quiet/c5.2xlarge", "summed/g5.xlarge", "training/c5.2xlarge", "training/g5.xlarge"]
    error_message = "a job runs on the targets that it names"
  }

  assert {
    condition = {
      for key in ["image", "user", "jobRoleArn", "readonlyRootFilesystem", "resourceRequirements", "environment", "volumes", "mountPoints", "linuxParameters"] :
      key => jsondecode(aws_batch_job_definition.this["training/g5.xlarge"].container_properties)[key]
      } == {
      image                  = "registry.example.org/train:cuda"
      user                   = "1000"
      jobRoleArn             = "arn:aws:iam::111122223333:role/training"
      readonlyRootFilesystem = true
      resourceRequirements   = [{ type = "VCPU", value = "2" }, { type = "MEMORY", value = "1024" }, { type = "GPU", value = "1" }]
      environment            = [{ name = "MODE", value = "fast" }]
      volumes                = [{ name = "mount-0", host = { sourcePath = "/scratch" } }, { name = "mount-1", host = { sourcePath = "/mnt/models" } }]
      mountPoints            = [{ sourceVolume = "mount-0", containerPath = "/data", readOnly = false }, { sourceVolume = "mount-1", containerPath = "/models", readOnly = true }]
      linuxParameters = {
        initProcessEnabled = true
        sharedMemorySize   = 512
        tmpfs              = [{ containerPath = "/tmp", size = 256, mountOptions = ["rw", "exec", "nosuid", "nodev"] }]
      }
    }
    error_message = "what is set reaches the definition, and a read-only image has a place for its files"
  }

  assert {
    condition     = [for need in jsondecode(aws_batch_job_definition.this["training/c5.2xlarge"].container_properties).resourceRequirements : need.type] == ["VCPU", "MEMORY"] && startswith(jsondecode(aws_batch_job_definition.this["training/c5.2xlarge"].container_properties).image, "111122223333.dkr")
    error_message = "gpus counts on GPU targets only, and each device has its image"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.execution.statement : one(statement.actions) => join(" ", sort(statement.resources)) } == {
      "secretsmanager:GetSecretValue" = "arn:aws:secretsmanager:us-east-1:111122223333:secret:team/token-AbCdEf"
      "ssm:GetParameters"             = "arn:aws:ssm:us-east-1:111122223333:parameter/team/place"
      "kms:Decrypt"                   = "arn:aws:kms:us-east-1:111122223333:key/0a1b2c3d"
    }
    error_message = "exactly these secrets are read, and decrypted with this key"
  }

  assert {
    condition     = flatten([for statement in data.aws_iam_policy_document.execution.statement : [for condition in statement.condition : [condition.test, condition.variable, sort(condition.values)]] if contains(statement.actions, "kms:Decrypt")]) == ["StringEquals", "kms:ViaService", "secretsmanager.us-east-1.amazonaws.com", "ssm.us-east-1.amazonaws.com"]
    error_message = "the key decrypts nothing but what these services keep"
  }

  assert {
    condition     = output.role_arns == ["arn:aws:iam::111122223333:role/mock", "arn:aws:iam::111122223333:role/none", "arn:aws:iam::111122223333:role/training"]
    error_message = "the check looks for a job's own role, too"
  }

  assert {
    condition     = alltrue([for role in [aws_iam_role.execution, aws_iam_role.none] : role.path == "/research/" && role.permissions_boundary == var.permissions_boundary_arn && role.assume_role_policy == var.task_trust_policy])
    error_message = "both roles have the path and the boundary given, and are taken on by tasks alone"
  }

  assert {
    condition = { for name, job in jsondecode(jsonencode(output.jobs)) : name => { for key, value in job : key => value if !contains(["job_definitions", "timeout_seconds", "attempts"], key) } } == {
      training = { command = ["./train", "--rate=Ref::rate", "--epochs", "Ref::epochs"], parameters = { epochs = "3" }, axis = { parameter = "rate", sizes = [0.5, 2] }, check = "test -s out.json", output = "out.json" }
      quiet    = { command = [], shell = false }
      summed   = { command = ["sum"], output = "/out/all", output_sha256 = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef" }
    }
    error_message = "Airflow is told how a job runs and is judged, and no secret"
  }
}
