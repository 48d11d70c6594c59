"""GitHub access for action.yml: the main branch's results and the pull request's comment."""
