mock_provider "aws" {
  override_during = plan

  mock_data "aws_caller_identity" {
    defaults = { account_id = "111122223333" }
  }

  mock_data "aws_partition" {
    defaults = { partition = "aws", dns_suffix = "amazonaws.com" }
  }

  mock_data "aws_ssm_parameter" {
    defaults = { insecure_value = "{\"schema_version\": 1, \"name\": \"batchmark\"}" }
  }

  mock_data "aws_subnets" {
    defaults = { ids = ["subnet-b", "subnet-a"] }
  }

  mock_data "aws_iam_policy_document" {
    defaults = { json = "{\"Version\":\"2012-10-17\",\"Statement\":[]}" }
  }

  mock_resource "aws_iam_role" {
    defaults = { arn = "arn:aws:iam::111122223333:role/mock" }
  }

  mock_resource "aws_s3_bucket" {
    defaults = { arn = "arn:aws:s3:::code" }
  }

  mock_resource "aws_mwaa_environment" {
    defaults = { webserver_url = "0123.c1.us-east-1.airflow.amazonaws.com" }
  }

  override_data {
    target = data.aws_subnet.this["subnet-a"]
    values = { vpc_id = "vpc-1", availability_zone = "us-east-1a" }
  }

  override_data {
    target = data.aws_subnet.this["subnet-b"]
    values = { vpc_id = "vpc-1", availability_zone = "us-east-1b" }
  }
}

variables {
  airflow_version  = "3.3.1"
  plugins_zip_path = "requirements.txt" # any file
}

run "environment" {
  command = plan

  assert {
    condition = [
      aws_mwaa_environment.this.name,
      aws_mwaa_environment.this.airflow_version,
      aws_mwaa_environment.this.environment_class,
      aws_mwaa_environment.this.webserver_access_mode,
      aws_mwaa_environment.this.weekly_maintenance_window_start,
      tostring(aws_mwaa_environment.this.min_workers),
      tostring(aws_mwaa_environment.this.max_workers),
    ] == ["batchmark-airflow", "3.3.1", "mw1.small", "PRIVATE_ONLY", "SUN:03:30", "1", "1"]
    error_message = "the smallest environment that is not micro, with a private UI"
  }

  assert {
    condition     = aws_mwaa_environment.this.airflow_configuration_options["secrets.backend"] == "airflow.providers.amazon.aws.secrets.systems_manager.SystemsManagerParameterStoreBackend" && aws_mwaa_environment.this.airflow_configuration_options["secrets.backend_kwargs"] == "{\"config_prefix\":null,\"connections_prefix\":null,\"region_name\":\"us-east-1\",\"variables_prefix\":\"/airflow/variables\"}"
    error_message = "Airflow reads what the core stack published"
  }

  assert {
    condition     = one(aws_mwaa_environment.this.network_configuration).subnet_ids == toset(["subnet-a", "subnet-b"]) && aws_security_group.this.vpc_id == "vpc-1"
    error_message = "it runs in the core stack's private subnets"
  }

  assert {
    condition     = aws_vpc_security_group_ingress_rule.self.ip_protocol == "-1" && aws_vpc_security_group_ingress_rule.self.cidr_ipv4 == null && length(aws_vpc_security_group_ingress_rule.users) == 0 && aws_vpc_security_group_egress_rule.https.from_port == 443
    error_message = "nothing gets in but its own parts, and only HTTPS gets out"
  }

  assert {
    condition     = sort([for group in aws_cloudwatch_log_group.this : group.name]) == tolist(["airflow-batchmark-airflow-DAGProcessing", "airflow-batchmark-airflow-Scheduler", "airflow-batchmark-airflow-Task", "airflow-batchmark-airflow-WebServer", "airflow-batchmark-airflow-Worker"]) && alltrue([for group in aws_cloudwatch_log_group.this : group.retention_in_days == 30])
    error_message = "the log groups that MWAA writes to have a retention"
  }

  assert {
    condition     = contains(keys(aws_s3_object.dags), "gpu_cpu_benchmark.py") && alltrue([for name, object in aws_s3_object.dags : object.key == "dags/${name}"])
    error_message = "the DAGs lie below dags/"
  }

  assert {
    condition     = aws_s3_bucket.this.bucket == "batchmark-airflow-111122223333-us-east-1" && aws_s3_bucket_versioning.this.versioning_configuration[0].status == "Enabled" && alltrue([aws_s3_bucket_public_access_block.this.block_public_acls, aws_s3_bucket_public_access_block.this.block_public_policy, aws_s3_bucket_public_access_block.this.ignore_public_acls, aws_s3_bucket_public_access_block.this.restrict_public_buckets]) && data.aws_iam_policy_document.bucket.statement[0].effect == "Deny"
    error_message = "the bucket is versioned, never public and TLS only"
  }

  assert {
    condition     = [for attachment in aws_iam_role_policy_attachment.core : attachment.policy_arn] == ["arn:aws:iam::111122223333:policy/batchmark-airflow", "arn:aws:iam::111122223333:policy/batchmark-airflow-watch"]
    error_message = "the DAGs may do what the core stack says"
  }

  assert {
    condition = { for statement in data.aws_iam_policy_document.this.statement : statement.sid => join(" ", sort(coalesce(statement.resources, statement.not_resources))) } == {
      ReportHealth      = "arn:aws:airflow:us-east-1:111122223333:environment/batchmark-airflow"
      ReadCode          = "arn:aws:s3:::code arn:aws:s3:::code/*"
      CheckPublicAccess = "*"
      WriteLogs         = "arn:aws:logs:us-east-1:111122223333:log-group:airflow-batchmark-airflow-*"
      FindLogs          = "*"
      PublishMetrics    = "*"
      UseTaskQueue      = "arn:aws:sqs:us-east-1:*:airflow-celery-*"
      UseKeyOfTaskQueue = "arn:aws:kms:*:111122223333:key/*"
    }
    error_message = "MWAA's own rights end at this environment where the API lets them"
  }

  assert {
    condition = { for condition in data.aws_iam_policy_document.trust.statement[0].condition : condition.variable => one(condition.values) } == {
      "aws:SourceAccount" = "111122223333"
      "aws:SourceArn"     = "arn:aws:airflow:us-east-1:111122223333:environment/batchmark-airflow"
    }
    error_message = "the role is for this environment only"
  }
}

run "own_network_key_and_options" {
  command = plan

  variables {
    subnet_ids                    = ["subnet-a", "subnet-b"]
    user_cidrs                    = ["10.0.0.0/8"]
    kms_key_arn                   = "arn:aws:kms:us-east-1:111122223333:key/0123"
    environment_class             = "mw1.micro"
    airflow_configuration_options = { "core.parallelism" = "8" }
  }

  assert {
    condition     = length(data.aws_subnets.private) == 0 && aws_vpc_security_group_ingress_rule.users["10.0.0.0/8"].from_port == 443
    error_message = "given subnets are not looked for, and the UI is open to the VPN"
  }

  assert {
    condition     = aws_mwaa_environment.this.kms_key == var.kms_key_arn && alltrue([for group in aws_cloudwatch_log_group.this : group.kms_key_id == var.kms_key_arn]) && one(one(aws_s3_bucket_server_side_encryption_configuration.this.rule).apply_server_side_encryption_by_default).sse_algorithm == "aws:kms"
    error_message = "environment, logs and bucket are encrypted with the key"
  }

  assert {
    condition     = [for statement in data.aws_iam_policy_document.this.statement : join(" ", statement.resources) if startswith(statement.sid, "UseKey")] == ["arn:aws:kms:us-east-1:111122223333:key/0123"]
    error_message = "with a key of our own no other is used"
  }

  assert {
    condition     = aws_mwaa_environment.this.schedulers == 1 && aws_mwaa_environment.this.airflow_configuration_options["core.parallelism"] == "8"
    error_message = "micro has one scheduler, and your own options are added"
  }
}

run "refuses_bad_values" {
  command = plan

  variables {
    region                          = "us-east-1a"
    airflow_variables_prefix        = "airflow/"
    airflow_version                 = "2.10.3"
    environment_class               = "mw1.tiny"
    max_workers                     = 26
    webserver_access_mode           = "PUBLIC"
    weekly_maintenance_window_start = "SUNDAY:3"
    log_level                       = "info"
    log_retention_days              = 31
    plugins_zip_path                = "no-such.zip"
    subnet_ids                      = ["subnet-a"]
    user_cidrs                      = ["0.0.0.0/0"]
  }

  expect_failures = [
    var.region,
    var.airflow_variables_prefix,
    var.airflow_version,
    var.environment_class,
    var.max_workers,
    var.webserver_access_mode,
    var.weekly_maintenance_window_start,
    var.log_level,
    var.log_retention_days,
    var.plugins_zip_path,
    var.subnet_ids,
    var.user_cidrs,
  ]
}

run "refuses_another_schema" {
  command = plan

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 2, \"name\": \"other\"}" }
  }

  expect_failures = [data.aws_ssm_parameter.core]
}

run "refuses_two_subnets_in_one_zone" {
  command = plan

  override_data {
    target = data.aws_subnet.this["subnet-b"]
    values = { vpc_id = "vpc-1", availability_zone = "us-east-1a", map_public_ip_on_launch = true }
  }

  expect_failures = [aws_security_group.this]
}

run "refuses_what_is_malformed" {
  command = plan

  variables {
    name                          = "Batchmark"
    tags                          = { "aws:owner" = "me" }
    kms_key_arn                   = "alias/airflow"
    permissions_boundary_arn      = "boundary"
    iam_path                      = "research"
    airflow_configuration_options = { parallelism = "8" }
  }

  expect_failures = [
    var.name,
    var.tags,
    var.kms_key_arn,
    var.permissions_boundary_arn,
    var.iam_path,
    var.airflow_configuration_options,
  ]
}

run "refuses_a_second_worker_of_micro" {
  command = plan

  variables {
    environment_class = "mw1.micro"
    max_workers       = 2
  }

  expect_failures = [aws_mwaa_environment.this]
}

run "refuses_an_airflow_whose_task_sdk_lacks_what_the_dags_import" {
  command = plan

  variables {
    airflow_version = "3.1.8"
  }

  expect_failures = [var.airflow_version]
}

run "takes_the_oldest_airflow_that_has_it" {
  command = plan

  variables {
    airflow_version = "3.2.1"
  }

  assert {
    condition     = aws_mwaa_environment.this.airflow_version == "3.2.1"
    error_message = "3.2.1 is taken"
  }
}

# The provider refuses names that are too long for AWS.
run "longest_name" {
  command = plan

  variables {
    name   = "longest-installation"
    region = "ap-southeast-1"
  }

  override_data {
    target = data.aws_ssm_parameter.core
    values = { insecure_value = "{\"schema_version\": 1, \"name\": \"longest-installation\"}" }
  }

  assert {
    condition     = aws_s3_bucket.this.bucket == "longest-installation-airflow-111122223333-ap-southeast-1"
    error_message = "the bucket has a name of its own in the longest region"
  }
}
