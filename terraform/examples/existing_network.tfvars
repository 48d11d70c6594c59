# For accounts that may not make a VPC: instances start in subnets and security groups that are there,
# all roles lie below a path and have a permissions boundary, and Session Manager opens shells. Put in
# your own ids and ARNs. The subnets need a way to S3, ECR, ECS, CloudWatch and its logs.
name = "batchmark-existing"

gpu_instance_types = ["g5.xlarge"]
cpu_instance_types = ["c5.2xlarge"]

existing_network = {
  vpc_id             = "vpc-0123456789abcdef0"
  subnet_ids         = ["subnet-0123456789abcdef0", "subnet-0123456789abcdef1"]
  security_group_ids = ["sg-0123456789abcdef0"]
}

iam_path                 = "/research/"
permissions_boundary_arn = "arn:aws:iam::111122223333:policy/research-boundary"
enable_session_manager   = true
