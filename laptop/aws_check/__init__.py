"""`make aws-check`: tests a first apply in an AWS account, from quotas to a complete clean-up."""
