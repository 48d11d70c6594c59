"""`make aws-check`: tests a first deployment to an AWS account, from quotas to full clean-up."""
