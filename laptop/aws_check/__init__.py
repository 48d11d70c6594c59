"""`make aws-check`: the first apply in an account as a program, from quotas to nothing left."""
