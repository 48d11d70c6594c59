"""What action.yml needs of GitHub: the main branch's results, and the pull request's comment."""
