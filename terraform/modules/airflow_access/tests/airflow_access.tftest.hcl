mock_provider "aws" {
  override_during = plan

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_region" {
    defaults = { name = "eu-west-1" }
  }

  mock_data "aws_iam_policy_document" {
    defaults = {
      json          = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
      minified_json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}"
    }
  }

  mock_resource "aws_iam_policy" {
    defaults = { arn = "arn:aws:iam::111122223333:policy/test-airflow" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/test-airflow" }
  }
}

variables {
  name                  = "test"
  job_queue_arns        = ["arn:aws:batch:eu-west-1:111122223333:job-queue/test-g5"]
  job_definition_arns   = ["arn:aws:batch:eu-west-1:111122223333:job-definition/test-g5:12"]
  log_group_names       = ["/aws/batch/test"]
  events_log_group_name = "/aws/events/batch/test"
  bucket_arn            = "arn:aws:s3:::results"
  ecr_repository_arns   = ["arn:aws:ecr:eu-west-1:111122223333:repository/test-job"]
  role_arns             = ["arn:aws:iam::111122223333:role/test-job-1", "arn:aws:iam::111122223333:role/test-execution-1"]
  instance_profile_arn  = "arn:aws:iam::111122223333:instance-profile/test-instance-1"
  ssm_parameter_arn     = "arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark"
  topic_arn             = "arn:aws:sns:eu-west-1:111122223333:test-alerts"
}

run "policy" {
  command = plan

  assert {
    condition = { for statement in data.aws_iam_policy_document.run.statement : statement.sid => join(" ", sort(statement.actions)) } == {
      SubmitJobs           = "batch:SubmitJob"
      TagJobsWhenSubmitted = "batch:TagResource"
      StopOwnJobs          = "batch:TerminateJob"
      FollowJobs           = "batch:DescribeComputeEnvironments batch:DescribeJobDefinitions batch:DescribeJobQueues batch:DescribeJobs batch:ListJobs ec2:DescribeCapacityReservations ec2:DescribeInstanceTypes ec2:DescribeInstances ec2:DescribeSpotPriceHistory pricing:GetProducts"
      LookAtHosts          = "ecs:DescribeContainerInstances ecs:DescribeTasks"
      ReadJobLogs          = "logs:FilterLogEvents logs:GetLogEvents"
      ReadJobStates        = "logs:FilterLogEvents"
      KeepResults          = "s3:GetObject s3:PutObject"
      ReadResults          = "s3:GetObject"
      WriteResults         = "s3:PutObject"
      RemoveOldHistory     = "s3:DeleteObject"
      ListResults          = "s3:ListBucket"
      ReadVariables        = "ssm:GetParameter"
      PublishAlerts        = "sns:Publish"
    }
    error_message = "Airflow may do what it does, and nothing else"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.run.statement : statement.sid => join(" ", sort(statement.resources)) } == {
      SubmitJobs           = "arn:aws:batch:eu-west-1:111122223333:job-definition/test-g5:* arn:aws:batch:eu-west-1:111122223333:job-queue/test-g5"
      TagJobsWhenSubmitted = "arn:aws:batch:eu-west-1:111122223333:job/*"
      StopOwnJobs          = "arn:aws:batch:eu-west-1:111122223333:job/*"
      FollowJobs           = "*"
      ReadJobLogs          = "arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/test arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/test:*"
      ReadJobStates        = "arn:aws:logs:eu-west-1:111122223333:log-group:/aws/events/batch/test arn:aws:logs:eu-west-1:111122223333:log-group:/aws/events/batch/test:*"
      LookAtHosts          = "arn:aws:ecs:eu-west-1:111122223333:container-instance/AWSBatch-test-* arn:aws:ecs:eu-west-1:111122223333:container-instance/test-*_Batch_* arn:aws:ecs:eu-west-1:111122223333:task/AWSBatch-test-* arn:aws:ecs:eu-west-1:111122223333:task/test-*_Batch_*"
      KeepResults          = "arn:aws:s3:::results/alerts/* arn:aws:s3:::results/costs/* arn:aws:s3:::results/history/* arn:aws:s3:::results/history_snapshots/* arn:aws:s3:::results/noise/* arn:aws:s3:::results/runs/*"
      ReadResults          = "arn:aws:s3:::results/imports/* arn:aws:s3:::results/raw/*"
      WriteResults         = "arn:aws:s3:::results/guard/queues/* arn:aws:s3:::results/prices/* arn:aws:s3:::results/raw/*/*/job-*"
      RemoveOldHistory     = "arn:aws:s3:::results/history/*"
      ListResults          = "arn:aws:s3:::results"
      ReadVariables        = "arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark_alerts arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark_eks arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark_multi_node arn:aws:ssm:eu-west-1:111122223333:parameter/airflow/variables/batchmark_own_jobs"
      PublishAlerts        = "arn:aws:sns:eu-west-1:111122223333:test-alerts"
    }
    error_message = "only calls that take no resource are allowed on all"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.run.statement : statement.sid => join("; ", [for condition in statement.condition : "${condition.test} ${condition.variable} ${join(",", condition.values)}"]) if length(statement.condition) > 0 } == {
      TagJobsWhenSubmitted = "ForAllValues:StringLike aws:TagKeys batchmark:*; StringEquals aws:RequestTag/batchmark:installation test"
      StopOwnJobs          = "StringEquals aws:ResourceTag/batchmark:installation test"
    }
    error_message = "only our tags are set, and only our jobs are stopped"
  }

  assert {
    condition     = [for policy in aws_iam_policy.this : policy.name] == ["test-airflow", "test-airflow-watch"] && keys(output.policy_arns) == ["run", "watch"] && length(aws_iam_role.this) == 0 && output.role_arn == null
    error_message = "without principals there are two policies and no role"
  }
}

run "watching" {
  command = plan

  assert {
    condition = { for statement in data.aws_iam_policy_document.watch.statement : statement.sid => join(" ", sort(statement.actions)) } == {
      LookAround      = "autoscaling:DescribeAutoScalingGroups autoscaling:DescribeScalingActivities cloudwatch:GetMetricStatistics ec2:DescribeRouteTables ec2:DescribeSubnets ec2:DescribeVpcEndpoints fsx:DescribeFileSystems inspector2:ListFindings servicequotas:GetServiceQuota"
      LookForHosts    = "ecs:ListContainerInstances"
      LookAtAmis      = "ssm:GetParameters"
      LookAtImages    = "ecr:DescribeImageScanFindings ecr:DescribeImages ecr:DescribeRepositories"
      LookAtRoles     = "iam:GetInstanceProfile iam:GetRole"
      LookAtTopic     = "sns:GetTopicAttributes"
      LookAtLogGroups = "logs:DescribeLogStreams"
      ReadFindings    = "s3:GetObject"
      KeepFindings    = "s3:PutObject"
      EndOwnLeaks     = "ec2:TerminateInstances fsx:DeleteFileSystem"
    }
    error_message = "checks, diagnoses, the guard and the self-test may do what they do, and nothing else"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.watch.statement : statement.sid => join(" ", sort(statement.resources)) } == {
      LookAround      = "*"
      LookForHosts    = "arn:aws:ecs:eu-west-1:111122223333:cluster/AWSBatch-test-* arn:aws:ecs:eu-west-1:111122223333:cluster/test-*_Batch_*"
      LookAtAmis      = "arn:aws:ssm:eu-west-1::parameter/aws/service/ecs/optimized-ami/amazon-linux-2023/*"
      LookAtImages    = "arn:aws:ecr:eu-west-1:111122223333:repository/test-job"
      LookAtRoles     = "arn:aws:iam::111122223333:instance-profile/test-instance-1 arn:aws:iam::111122223333:role/test-execution-1 arn:aws:iam::111122223333:role/test-job-1"
      LookAtTopic     = "arn:aws:sns:eu-west-1:111122223333:test-alerts"
      LookAtLogGroups = "arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/test arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/test:* arn:aws:logs:eu-west-1:111122223333:log-group:/aws/events/batch/test arn:aws:logs:eu-west-1:111122223333:log-group:/aws/events/batch/test:*"
      ReadFindings    = "arn:aws:s3:::results/diagnoses/* arn:aws:s3:::results/guard/* arn:aws:s3:::results/self_test/*"
      KeepFindings    = "arn:aws:s3:::results/diagnoses/* arn:aws:s3:::results/guard/* arn:aws:s3:::results/self_test/*"
      EndOwnLeaks     = "arn:aws:ec2:eu-west-1:111122223333:instance/* arn:aws:fsx:eu-west-1:111122223333:file-system/*"
    }
    error_message = "only calls that take no resource are allowed on all"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.watch.statement : "${statement.sid} ${one(statement.condition).variable} ${one(one(statement.condition).values)}" if length(statement.condition) > 0] == ["EndOwnLeaks aws:ResourceTag/batchmark:installation test"]
    error_message = "only our instances and file systems are ended"
  }
}

run "role_and_key" {
  command = plan

  variables {
    principal_arns = ["arn:aws:iam::444455556666:role/path/airflow", "arn:aws:iam::111122223333:user/ci"]
    external_id    = "team-7"
    kms_key_arn    = "arn:aws:kms:eu-west-1:111122223333:key/0123"
  }

  assert {
    condition     = aws_iam_role.this[0].name == "test-airflow" && { for key, attachment in aws_iam_role_policy_attachment.this : key => attachment.policy_arn } == output.policy_arns
    error_message = "the role has both policies"
  }

  assert {
    condition     = one(data.aws_iam_policy_document.trust[0].statement[0].principals).identifiers == var.principal_arns && one(data.aws_iam_policy_document.trust[0].statement[0].condition).values == tolist(["team-7"])
    error_message = "those principals may assume it, with the external id"
  }

  assert {
    condition = [for statement in data.aws_iam_policy_document.run.statement : "${join(" ", sort(statement.actions))} ${join(" ", statement.resources)} ${one(statement.condition).variable} ${join(" ", one(statement.condition).values)}" if statement.sid == "UseKey"] == [
      "kms:Decrypt kms:GenerateDataKey arn:aws:kms:eu-west-1:111122223333:key/0123 kms:ViaService s3.eu-west-1.amazonaws.com sns.eu-west-1.amazonaws.com",
    ]
    error_message = "the key is used through S3 and SNS only"
  }
}

run "refuses_everybody" {
  command = plan

  variables {
    principal_arns = ["*"]
  }

  expect_failures = [var.principal_arns]
}

run "refuses_a_wildcard" {
  command = plan

  variables {
    principal_arns = ["arn:aws:iam::111122223333:role/*"]
  }

  expect_failures = [var.principal_arns]
}

run "refuses_without_queue_definition_or_log_group" {
  command = plan

  variables {
    job_queue_arns      = []
    job_definition_arns = []
    log_group_names     = []
    external_id         = "a b"
  }

  expect_failures = [var.job_queue_arns, var.job_definition_arns, var.log_group_names, var.external_id]
}

run "refuses_what_is_no_arn_or_too_many" {
  command = plan

  variables {
    job_queue_arns      = ["test-g5"]
    job_definition_arns = ["arn:aws:batch:eu-west-1:111122223333:job-definition/*"]
    log_group_names     = ["/aws/batch/*"]
  }

  expect_failures = [var.job_queue_arns, var.job_definition_arns, var.log_group_names]
}

# What stands where Airflow compares queues and definitions that it did not make.
run "foreign_queues_without_anything_of_ours" {
  command = plan

  variables {
    job_definition_arns   = ["arn:aws:batch:eu-west-1:111122223333:job-definition/theirs"]
    log_group_names       = ["/aws/batch/job", "/theirs"]
    events_log_group_name = null
    foreign_queues        = true
    ecr_repository_arns   = []
    role_arns             = []
    instance_profile_arn  = null
    topic_arn             = null
  }

  assert {
    condition     = !anytrue([for statement in concat(data.aws_iam_policy_document.run.statement, data.aws_iam_policy_document.watch.statement) : contains(["ReadJobStates", "PublishAlerts", "LookAtTopic", "LookAtImages", "LookAtRoles"], statement.sid)])
    error_message = "what is not there takes no right"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.run.statement : statement.sid => join(" ", sort(statement.resources)) if contains(["SubmitJobs", "ReadJobLogs", "LookAtHosts"], statement.sid) } == {
      SubmitJobs  = "arn:aws:batch:eu-west-1:111122223333:job-definition/theirs:* arn:aws:batch:eu-west-1:111122223333:job-queue/test-g5"
      ReadJobLogs = "arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/job arn:aws:logs:eu-west-1:111122223333:log-group:/aws/batch/job:* arn:aws:logs:eu-west-1:111122223333:log-group:/theirs arn:aws:logs:eu-west-1:111122223333:log-group:/theirs:*"
      LookAtHosts = "arn:aws:ecs:eu-west-1:111122223333:container-instance/*_Batch_* arn:aws:ecs:eu-west-1:111122223333:container-instance/AWSBatch-* arn:aws:ecs:eu-west-1:111122223333:task/*_Batch_* arn:aws:ecs:eu-west-1:111122223333:task/AWSBatch-*"
    }
    error_message = "jobs are submitted to theirs, their logs are read and their hosts looked at"
  }
}

run "roles_within_guardrails" {
  command = plan

  variables {
    principal_arns           = ["arn:aws:iam::111122223333:role/airflow"]
    iam_path                 = "/research/"
    permissions_boundary_arn = "arn:aws:iam::111122223333:policy/boundary"
  }

  assert {
    condition     = [for role in aws_iam_role.this : [role.path, role.permissions_boundary]] == [["/research/", "arn:aws:iam::111122223333:policy/boundary"]] && alltrue([for policy in aws_iam_policy.this : policy.path == "/research/"])
    error_message = "the role and its policies have the path and the boundary given"
  }
}
